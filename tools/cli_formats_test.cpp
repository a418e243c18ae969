// golden capture --checkpoint on one model in every format.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/checkpoint/checkpoint.h"
#include "fixtures/checkpoint/checkpoint_testing.h"
#include "fixtures/golden_file.h"
#include "tools/cli_testing.h"

namespace mlacheck::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint64_t kSeed = 5;

// Three layers of the hash checkpoint, the last of which shares the indices of the second.
class Formats : public ::testing::Test {
 protected:
  static ModelSizes make_sizes() {
    ModelSizes sizes = small_sizes(3);
    sizes.indexer_types.back() = IndexerType::shared;
    return sizes;
  }
  std::string safetensors(DType dtype) {
    write_model(folder_ / "model", sizes_, safetensors_tensors(sizes_, kSeed, dtype));
    return folder_ / "model";
  }
  // In two files; the path of the second.
  std::string gguf(GgmlType type, KvB kv_b) {
    const auto tensors = gguf_tensors(sizes_, kSeed, type, kv_b);
    const std::size_t half = tensors.size() / 2;
    for (const std::uint16_t part : {std::uint16_t{0}, std::uint16_t{1}}) {
      auto keys = part == 0 ? gguf_keys(sizes_) : std::vector<GgufKey>{};
      keys.push_back({"split.no", part});
      keys.push_back({"split.count", std::uint16_t{2}});
      keys.push_back({"split.tensors.count", static_cast<std::int32_t>(tensors.size())});
      const auto all = std::span(tensors);
      write_gguf(folder_ / part_name(part), keys, part == 0 ? all.first(half) : all.subspan(half));
    }
    return folder_ / part_name(1);
  }
  static std::string part_name(int part) { return fmt::format("m-{:05}-of-00002.gguf", part + 1); }

  Outcome capture(const std::string& model) {
    std::filesystem::remove(golden());
    return mlacheck({"golden", "capture", "--checkpoint", model, "--layers", "0,2", "--inputs",
                     "hash:6:5", "--out", golden()});
  }
  auto captured(const std::string& model) {
    const Outcome outcome = capture(model);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return read_golden(golden()).datasets;
  }
  // The model with the weights that `path` is read as, written as F32 safetensors.
  std::string as_read(const std::string& path) {
    const auto checkpoint = open_checkpoint(path);
    std::vector<OwnedTensor> tensors;
    for (std::int64_t layer = 0; layer < sizes_.num_hidden_layers; ++layer)
      for (OwnedTensor& tensor :
           safetensors_layer(sizes_, layer, checkpoint->load_layer(sizes_, layer), DType::f32))
        tensors.push_back(std::move(tensor));
    write_model(folder_ / "read", sizes_, tensors);
    return folder_ / "read";
  }
  std::string golden() const { return folder_ / "golden.h5"; }

  const ModelSizes sizes_ = make_sizes();
  TemporaryFolder folder_;
};

TEST_F(Formats, ThatLoseNothingGiveTheSameCapture) {
  const auto exact = captured(safetensors(DType::bf16));
  EXPECT_EQ(captured(gguf(GgmlType::f32, KvB::split)), exact);
  EXPECT_EQ(captured(gguf(GgmlType::bf16, KvB::split)), exact);
}

TEST_F(Formats, ThatRoundAreCapturedAsTheyAreRead) {
  const auto exact = captured(safetensors(DType::bf16));
  for (const std::string& model : {safetensors(DType::e4m3), gguf(GgmlType::q8_0, KvB::split)}) {
    const auto rounded = captured(model);
    EXPECT_NE(rounded, exact);
    EXPECT_EQ(mlacheck({"golden", "check", golden(), "--checkpoint", model}).code, 0);
    EXPECT_EQ(captured(as_read(model)), rounded);
  }
}

TEST_F(Formats, OfAnotherFileAreNotTheGoldens) {
  captured(gguf(GgmlType::q8_0, KvB::split));
  const std::string other = gguf(GgmlType::f32, KvB::split);
  const Outcome outcome = mlacheck({"golden", "check", golden(), "--checkpoint", other});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("is not the tensor that the golden was made from"));
}

TEST_F(Formats, ThatAreDamagedAreRefusedByFileAndTensor) {
  const std::string model = gguf(GgmlType::q8_0, KvB::split);
  std::filesystem::resize_file(model, 20'000);
  Outcome outcome = capture(model);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr(part_name(1)), HasSubstr("tensor blk.")));
  std::filesystem::remove(model);
  outcome = capture(folder_ / part_name(0));
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr(part_name(1) + ": is missing"));
  outcome = capture(folder_ / "nothing.gguf");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("nothing.gguf: cannot be opened"));
  EXPECT_FALSE(std::filesystem::exists(golden()));
}

}  // namespace
}  // namespace mlacheck::testing
