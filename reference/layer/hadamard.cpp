#include "reference/layer/hadamard.h"

#include "reference/operators/views.h"

namespace mlacheck {

void hadamard_128(std::span<float, kHadamardDim> x, DType dtype) {
  constexpr float kScale = 0x1.6a09e6p-4f;  // 128^-0.5
  for (std::size_t stride = 1; stride < x.size(); stride *= 2)
    for (std::size_t i = 0; i < x.size(); ++i) {
      if ((i & stride) != 0) continue;
      const float a = x[i];
      const float b = x[i + stride];
      x[i] = a + b;
      x[i + stride] = a - b;
    }
  for (float& element : x) element = round_to(dtype, element * kScale);
}

}  // namespace mlacheck
