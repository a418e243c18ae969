#pragma once

namespace mlacheck::device {

class FragmentA {
 public:
  FragmentA() = default;
  FragmentA(const FragmentA&) = delete;
  FragmentA& operator=(const FragmentA&) = delete;

  __device__ __forceinline__ void set(const Words4& words) {
#pragma unroll
    for (int i = 0; i < 4; ++i) word_[i] = words.word[i];
  }

 private:
  friend __device__ void load_matrix(FragmentA&, SharedPointer<std::byte>);
  template <Element E>
  friend __device__ void mma_m16n8k16(Accumulator&, const FragmentA&, const FragmentB&);

  std::uint32_t word_[4];
};

class FragmentB {
 public:
  FragmentB() = default;
  FragmentB(const FragmentB&) = delete;
  FragmentB& operator=(const FragmentB&) = delete;

  __device__ __forceinline__ void set(const Words2& words) {
    word_[0] = words.word[0];
    word_[1] = words.word[1];
  }

 private:
  friend __device__ void load_matrix(FragmentB&, SharedPointer<std::byte>);
  friend __device__ void load_matrix_transposed(FragmentB&, SharedPointer<std::byte>);
  friend __device__ void load_matrix(FragmentB&, FragmentB&, SharedPointer<std::byte>);
  friend __device__ void load_matrix_transposed(FragmentB&, FragmentB&, SharedPointer<std::byte>);
  template <Element E>
  friend __device__ void mma_m16n8k16(Accumulator&, const FragmentA&, const FragmentB&);

  std::uint32_t word_[2];
};

class Accumulator {
 public:
  Accumulator() = default;
  Accumulator(const Accumulator&) = delete;
  Accumulator& operator=(const Accumulator&) = delete;

  __device__ __forceinline__ void clear() { value_[0] = value_[1] = value_[2] = value_[3] = 0.0f; }
  __device__ __forceinline__ float& operator[](int i) { return value_[i]; }

 private:
  float value_[4];
};

__device__ __forceinline__ void load_matrix(FragmentA& a, SharedPointer<std::byte> row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a.word_[0]), "=r"(a.word_[1]), "=r"(a.word_[2]), "=r"(a.word_[3])
               : "r"(row.address));
}

__device__ __forceinline__ void load_matrix(FragmentB& b, SharedPointer<std::byte> row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(b.word_[0]), "=r"(b.word_[1])
               : "r"(row.address));
}

__device__ __forceinline__ void load_matrix_transposed(FragmentB& b, SharedPointer<std::byte> row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(b.word_[0]), "=r"(b.word_[1])
               : "r"(row.address));
}

__device__ __forceinline__ void load_matrix(FragmentB& first, FragmentB& second,
                                            SharedPointer<std::byte> row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(first.word_[0]), "=r"(first.word_[1]), "=r"(second.word_[0]),
                 "=r"(second.word_[1])
               : "r"(row.address));
}

__device__ __forceinline__ void load_matrix_transposed(FragmentB& first, FragmentB& second,
                                                       SharedPointer<std::byte> row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(first.word_[0]), "=r"(first.word_[1]), "=r"(second.word_[0]),
                 "=r"(second.word_[1])
               : "r"(row.address));
}

__device__ __forceinline__ std::uint32_t transpose_matrix(std::uint32_t word) {
  std::uint32_t transposed;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(word));
  return transposed;
}

template <Element E>
__device__ __forceinline__ void mma_m16n8k16(Accumulator& c, const FragmentA& a,
                                             const FragmentB& b) {
  if constexpr (E == Element::f16)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.word_[0]), "r"(a.word_[1]), "r"(a.word_[2]), "r"(a.word_[3]), "r"(b.word_[0]),
          "r"(b.word_[1]));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.word_[0]), "r"(a.word_[1]), "r"(a.word_[2]), "r"(a.word_[3]), "r"(b.word_[0]),
          "r"(b.word_[1]));
}

template <Element E>
__device__ __forceinline__ std::uint32_t pack(float low, float high) {
  std::uint32_t word;
  if constexpr (E == Element::f16)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

}  // namespace mlacheck::device
