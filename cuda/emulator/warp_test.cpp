// Collectives give what the device layer documents, and diverging lanes are named.
#include <bit>
#include <cstring>
#include <random>

#include "cuda/emulator/kernel_testing.h"
#include "reference/arithmetic/tensor_core.h"

namespace mlacheck::kernel_testing {
namespace {

using ::testing::HasSubstr;

TEST(Warp, Shuffles) {
  const auto out = out_of(
      [](Arguments a) {
        const unsigned t = thread_index(), lane = lane_index();
        store(a.out + t, shuffle(load_constant(a.in + t), (lane + 5) % 32));
        store(a.out + 64 + t, static_cast<float>(shuffle_xor(static_cast<int>(t), 9)));
      },
      shape_of(64));
  for (unsigned t = 0; t < 64; ++t) {
    EXPECT_EQ(out[t], static_cast<float>(t / 32 * 32 + (t + 5) % 32));
    EXPECT_EQ(out[64 + t], static_cast<float>(t ^ 9));
  }
}

TEST(Warp, Votes) {
  const auto out = out_of(
      [](Arguments a) {
        const unsigned t = thread_index();
        const unsigned bits = ballot(t % 3 == 0);
        store(a.out + t, static_cast<float>(bits >> 16));
        store(a.out + 32 + t, static_cast<float>(bits & 0xffffu));
        store(a.out + 64 + t, any(t == 17) ? 1.0f : 0.0f);
        store(a.out + 96 + t, any(t == 32) ? 1.0f : 0.0f);
      },
      shape_of(32));
  for (unsigned t = 0; t < 32; ++t) {
    EXPECT_EQ(out[t], static_cast<float>(0x4924));
    EXPECT_EQ(out[32 + t], static_cast<float>(0x9249));
    EXPECT_EQ(out[64 + t], 1.0f);
    EXPECT_EQ(out[96 + t], 0.0f);
  }
}

TEST(Warp, TransposesAMatrix) {
  // Element (row, column) is 8 row + column, in the low bits of a half.
  const auto out = out_of(
      [](Arguments a) {
        const unsigned t = thread_index(), element = t / 4 * 8 + t % 4 * 2;
        const std::uint32_t word = transpose_matrix(element | (element + 1) << 16);
        store(a.out + 2 * t, static_cast<float>(word & 0xffffu));
        store(a.out + 2 * t + 1, static_cast<float>(word >> 16));
      },
      shape_of(32));
  for (unsigned row = 0; row < 8; ++row)
    for (unsigned column = 0; column < 8; ++column)
      EXPECT_EQ(out[row * 8 + column], static_cast<float>(column * 8 + row));
}

TEST(Warp, Threads) {
  const auto out = out_of(
      [](Arguments a) {
        const unsigned i = (block_index_y() * grid_blocks() + block_index()) * 64 + thread_index();
        store(a.out + i, static_cast<float>(block_index() * 1000 + block_index_y() * 100 +
                                            warp_index() * 32 + lane_index()));
      },
      [] {
        LaunchShape shape = shape_of(64, 3);
        shape.blocks_y = 2;
        return shape;
      }());
  for (unsigned i = 0; i < 6 * 64; ++i)
    EXPECT_EQ(out[i], static_cast<float>(i / 64 % 3 * 1000 + i / 192 * 100 + i % 64));
}

TEST(Warp, LanesAtDifferentCollectives) {
  const Report report = expect_report(
      ReportKind::divergence,
      [](Arguments) {
        if (lane_index() < 16)
          shuffle(1, 0);
        else
          shuffle(1, 0);
      },
      shape_of(32));
  EXPECT_THAT(report.message, HasSubstr("another collective, at "));
}

TEST(Warp, LanesThatDoNotCome) {
  const Report report = expect_report(
      ReportKind::divergence,
      [](Arguments) {
        if (lane_index() < 16) shuffle(1, 0);
      },
      shape_of(32));
  EXPECT_THAT(report.message, HasSubstr("lanes 0x0000ffff"));
  expect_report(
      ReportKind::divergence,
      [](Arguments) {
        if (lane_index() == 7) return;
        sync_warp();
      },
      shape_of(64));
  expect_report(
      ReportKind::divergence,
      [](Arguments) {
        if (lane_index() % 2 == 0) take_registers<64>();
      },
      shape_of(128));
}

// On a GPU these are collectives; the emulator need not wait for them.
TEST(Warp, LanesThatAskAloneWhoTheyAre) {
  const Report report = expect_report(
      ReportKind::divergence,
      [](Arguments a) {
        if (thread_index() % 32 < 5) store(a.out + lane_index(), 1.0f);
        sync_warp();
      },
      shape_of(32));
  EXPECT_THAT(report.message, HasSubstr("lane_index or warp_index"));
  expect_report(
      ReportKind::divergence,
      [](Arguments a) {
        if (thread_index() % 32 < 5) store(a.out + lane_index(), 1.0f);
      },
      shape_of(32));
  expect_report(
      ReportKind::divergence,
      [](Arguments a) {
        store(a.out + thread_index(), thread_index() < 5 ? static_cast<float>(warp_index()) : 0.0f);
        ballot(true);
      },
      shape_of(64));
  expect_clean(
      [](Arguments) {
        for (unsigned i = 0; i < warp_index(); ++i) ballot(lane_index() < i);
      },
      shape_of(96));
}

// Sixteen warps have 128 registers a lane each at the start.
template <unsigned Taken, unsigned Given>
void redistribute(Arguments) {
  if (warp_index() < 12)
    take_registers<Taken>();
  else
    give_registers<Given>();
}

TEST(Warp, Registers) {
  expect_clean(redistribute<152, 56>, shape_of(512));  // 12 x 152 + 4 x 56 = 16 x 128
  const Report report =
      expect_report(ReportKind::register_misuse, redistribute<160, 56>, shape_of(512));
  EXPECT_THAT(report.message, HasSubstr("want 2144 registers a lane together and have 2048"));
  expect_report(ReportKind::register_misuse, redistribute<128, 136>, shape_of(512));
  expect_report(ReportKind::register_misuse, redistribute<120, 56>, shape_of(512));
}

TEST(Warp, LanesAtDifferentBlockBarriers) {
  expect_report(
      ReportKind::divergence,
      [](Arguments) {
        if (lane_index() < 16)
          sync_block();
        else
          sync_block();
      },
      shape_of(64));
  // Whole warps may come to it at different places.
  expect_clean(
      [](Arguments) {
        if (warp_index() == 0)
          sync_block();
        else
          sync_block();
      },
      shape_of(64));
}

TEST(Warp, LanesThatDoDifferentMatrixOperations) {
  expect_report(
      ReportKind::divergence,
      [](Arguments) {
        FragmentA a[2];
        a[lane_index() == 3 ? 1 : 0].set({});
        sync_warp();
      },
      shape_of(32));
  expect_report(
      ReportKind::divergence,
      [](Arguments) {
        Accumulator c;
        if (lane_index() != 3) c.clear();
        sync_warp();
      },
      shape_of(32));
  expect_report(
      ReportKind::divergence,
      [](Arguments a) {
        Accumulator c;
        c.clear();
        if (lane_index() < 8) store(a.out + lane_index(), c[0]);
        if (lane_index() >= 8) c.clear();
      },
      shape_of(32));
}

TEST(Warp, TooManyFragments) {
  expect_report(
      ReportKind::out_of_bounds, [](Arguments) { Accumulator c[257]; }, shape_of(32));
}

// The three matrices of a product, as bits: A and B row-major in `in`, C in `out`.
struct Product {
  std::uint16_t a[16][16];
  std::uint16_t b[16][8];
  std::uint16_t b_transposed[8][16];
  float c[16][8];
};
struct ProductArguments {
  const Product* in;
  float* out;  // [4][16][8]
};
struct ProductLayout {
  alignas(16) std::uint16_t a[16][16];
  alignas(16) std::uint16_t b[16][8];
  alignas(16) std::uint16_t b_transposed[8][16];
};

constexpr int kWays = 14;

// c + a b, by each way to load a and b.
template <Element E>
void multiply(ProductArguments arguments) {
  ProductLayout& s = shared_memory<ProductLayout>();
  const Product& in = *arguments.in;
  const unsigned lane = lane_index(), g = lane / 4, t = lane % 4;
  const auto copy = [&](auto& to, const auto& from) {
    const auto* source = reinterpret_cast<const Words4*>(&from);
    const SharedPointer<Words4> target = SharedPointer<Words4>{shared(to).address};
    if (lane < sizeof to / sizeof(Words4)) store(target + lane, load_constant(source + lane));
  };
  copy(s.a, in.a);
  copy(s.b, in.b);
  copy(s.b_transposed, in.b_transposed);
  sync_warp();

  FragmentA loaded, given;
  load_matrix(loaded, shared(s.a[lane % 16][lane / 16 * 8]).template as<std::byte>());
  const auto pair = [](const std::uint16_t& first) {
    return load_constant(reinterpret_cast<const std::uint32_t*>(&first));
  };
  given.set({{pair(in.a[g][2 * t]), pair(in.a[g + 8][2 * t]), pair(in.a[g][2 * t + 8]),
              pair(in.a[g + 8][2 * t + 8])}});
  FragmentB b[7];
  b[6].set({{pair(in.b_transposed[g][2 * t]), pair(in.b_transposed[g][2 * t + 8])}});
  const auto row = shared(s.b[lane % 16][0]).template as<std::byte>();
  const auto column = shared(s.b_transposed[lane % 8][lane / 8 % 2 * 8]).template as<std::byte>();
  load_matrix(b[0], column);
  load_matrix_transposed(b[1], row);
  load_matrix(b[2], b[3], column);
  load_matrix_transposed(b[4], b[5], row);

  const auto finish = [&](int way, Accumulator& c) {
    float* out = arguments.out + way * 128;
    store(out + g * 8 + 2 * t, c[0]);
    store(out + g * 8 + 2 * t + 1, c[1]);
    store(out + (g + 8) * 8 + 2 * t, c[2]);
    store(out + (g + 8) * 8 + 2 * t + 1, c[3]);
  };
  for (int way = 0; way < kWays; ++way) {
    Accumulator c;
    c[0] = load_constant(&in.c[g][2 * t]);
    c[1] = load_constant(&in.c[g][2 * t + 1]);
    c[2] = load_constant(&in.c[g + 8][2 * t]);
    c[3] = load_constant(&in.c[g + 8][2 * t + 1]);
    mma_m16n8k16<E>(c, way < 7 ? loaded : given, b[way % 7]);
    finish(way, c);
  }
}

template <Element E>
void expect_products_of_the_reference(DType element) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 60; ++trial) {
    Product in;
    // All bits are some value; the later trials keep exponents near one another.
    const std::uint16_t mask = trial < 20 ? 0xffff : element == DType::f16 ? 0x8fff : 0x83ff;
    const std::uint16_t base = trial < 20 ? 0 : element == DType::f16 ? 0x3000 : 0x3c00;
    for (auto& r : in.a)
      for (auto& x : r) x = static_cast<std::uint16_t>((random() & mask) | base);
    for (int k = 0; k < 16; ++k)
      for (int n = 0; n < 8; ++n)
        in.b[k][n] = in.b_transposed[n][k] = static_cast<std::uint16_t>((random() & mask) | base);
    for (auto& r : in.c)
      for (auto& x : r)
        x = trial % 2 == 0 ? static_cast<float>(static_cast<int>(random() % 2001) - 1000)
                           : std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    float expected[16][8];
    mma_m16n8k16({element, Lowering::hmma16_f25}, in.a, in.b, in.c, expected);

    std::vector<float> out(kWays * 128);
    SessionOptions options;
    options.seed = static_cast<std::uint64_t>(trial);
    Session session(options);
    Stream stream(&session);
    session.declare_memory("in", &in, sizeof in, emulator::Access::read);
    session.declare_memory("out", out.data(), out.size() * 4, emulator::Access::write);
    LaunchShape shape = shape_of(32);
    shape.shared_bytes = sizeof(ProductLayout);
    launch(stream, multiply<E>, shape, {&in, out.data()}, "multiply");
    for (int way = 0; way < kWays; ++way)
      ASSERT_EQ(std::memcmp(out.data() + way * 128, expected, sizeof expected), 0)
          << "trial " << trial << ", way " << way;
  }
}

TEST(Warp, ProductsHaveTheBitsOfTheReferenceF16) {
  expect_products_of_the_reference<Element::f16>(DType::f16);
}
TEST(Warp, ProductsHaveTheBitsOfTheReferenceBf16) {
  expect_products_of_the_reference<Element::bf16>(DType::bf16);
}

TEST(Warp, OneFragmentAsTwoElementTypes) {
  // What was prepared for one is prepared again for the other.
  const auto out = out_of(
      [](Arguments a) {
        FragmentA ones;
        ones.set({{0x3c003c00, 0x3c003c00, 0x3c003c00, 0x3c003c00}});  // f16 1, bf16 2^-7
        const unsigned lane = lane_index();
        struct Row {
          alignas(16) std::uint32_t word[32][4];
        };
        Row& s = shared_memory<Row>();
        store(shared(s.word[lane]).as<Words4>(),
              {{0x3c003c00, 0x3c003c00, 0x3c003c00, 0x3c003c00}});
        sync_warp();
        FragmentB b;
        load_matrix(b, shared(s.word[lane]).as<std::byte>());
        Accumulator c[2];
        c[0].clear();
        c[1].clear();
        mma_m16n8k16<Element::f16>(c[0], ones, b);
        mma_m16n8k16<Element::bf16>(c[1], ones, b);
        mma_m16n8k16<Element::f16>(c[0], ones, b);
        store(a.out + lane, c[0][3]);
        store(a.out + 32 + lane, c[1][2]);
      },
      shape_of(32));
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(out[static_cast<std::size_t>(lane)], 32.0f);
    EXPECT_EQ(out[static_cast<std::size_t>(32 + lane)], 0x1p-10f);
  }
}

}  // namespace
}  // namespace mlacheck::kernel_testing
