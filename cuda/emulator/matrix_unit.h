#pragma once

#include <cstdint>

#include "cuda/emulator/site.h"
#include "reference/arithmetic/tensor_core.h"

namespace mlacheck::emulator {

struct Lane;

inline constexpr std::uint32_t kWarpLanes = 32;

enum class MatrixOperation : std::uint8_t {
  none,
  set_a,   // 4 words of each lane
  set_b,   // 2
  load_a,  // 1 address of each lane, like all loads
  load_b,  // one fragment
  load_b_transposed,
  load_b_pair,  // two fragments
  load_b_pair_transposed,
  undefine,  // an accumulator
  clear,
  multiply_f16,
  multiply_bf16,
};

// A warp's fragments and accumulators, and what is to be done to them. Every lane records the same
// operations and runs on; when one of them needs a result, or must not overtake an operation, all
// meet and the recorded operations are executed (settle). Lanes that record different ones diverge.
class MatrixUnit {
 public:
  // Alive at one time, each.
  static constexpr std::uint32_t kMostA = 128;
  static constexpr std::uint32_t kMostB = 128;
  static constexpr std::uint32_t kMostC = 256;

  // For a new block.
  void reset();

  // Where the lane puts its words: `words` of them, kWarpLanes apart. c, a and b name registers.
  std::uint32_t* record(Lane& lane, MatrixOperation operation, std::uint32_t c, std::uint32_t a,
                        std::uint32_t b, std::uint32_t words, const Site& site);
  // Executes all that lanes have recorded. `lane` is the running one.
  void execute(Lane& lane);
  std::uint32_t recorded() const { return count_; }
  const Site& last_site() const { return sites_[count_ == 0 ? 0 : count_ - 1]; }

  // The lane's first value of an accumulator; the others are at 1, 64 and 65.
  float* accumulator(std::uint32_t c, std::uint32_t lane) {
    return &accumulators_[c].value[lane / 4][lane % 4 * 2];
  }
  // A lane may write a value itself.
  void define(std::uint32_t c) { accumulators_[c].defined = true; }

 private:
  static constexpr std::uint32_t kMostOperations = 256;
  static constexpr std::uint32_t kMostWords = 192;

  struct RegisterA {
    MmaBlockA block;
    std::uint32_t pairs[8][kMmaRows];  // [p][row]: k = 2p in the low half, 2p + 1
    MatrixOperation prepared_for;      // the multiplication whose element `block` was prepared for
  };
  struct RegisterB {
    MmaBlockB block;
    std::uint32_t pairs[8][kMmaColumns];  // [p][column]
    MatrixOperation prepared_for;
  };
  struct alignas(64) RegisterC {
    float value[kMmaRows][kMmaColumns];
    bool defined;
  };

  static constexpr std::uint64_t key(MatrixOperation operation, std::uint32_t c, std::uint32_t a,
                                     std::uint32_t b, const Site& site) {
    return std::uint64_t{site.id()} << 32 | std::uint64_t{c} << 24 | a << 16 | b << 8 |
           static_cast<std::uint32_t>(operation);
  }
  std::uint32_t* record_first(Lane& lane, std::uint64_t key, std::uint32_t words, const Site& site);
  void forget_operations();
  static void set(RegisterA& a, const std::uint32_t (*words)[kWarpLanes]);
  static void set(RegisterB& b, const std::uint32_t (*words)[kWarpLanes]);
  // The rows of `matrices` 8 x 8 matrices, from shared memory.
  void gather(Lane& lane, const std::uint32_t* addresses, std::uint32_t matrices, const Site& site,
              std::uint32_t (&rows)[kWarpLanes][4]);
  void multiply(Lane& lane, MatrixOperation operation, std::uint32_t c, std::uint32_t a,
                std::uint32_t b, const Site& site);

  std::uint64_t keys_[kMostOperations + 1];  // the one after the last is 0
  std::uint32_t first_word_[kMostOperations];
  Site sites_[kMostOperations];
  std::uint32_t count_ = 0;
  std::uint32_t words_ = 0;
  std::uint32_t word_[kMostWords][kWarpLanes];
  // Whether somebody has given the fragment a value in this block.
  bool a_defined_[kMostA];
  bool b_defined_[kMostB];
  RegisterA a_[kMostA];
  RegisterB b_[kMostB];
  RegisterC accumulators_[kMostC];
};

}  // namespace mlacheck::emulator
