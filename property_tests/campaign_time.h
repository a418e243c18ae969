#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "property_tests/shrink.h"
#include "tools/stopwatch.h"

namespace mlacheck {

// The seconds of a campaign.
class CampaignTime {
 public:
  CampaignTime(double seconds, const ShrinkBudget& shrinking, std::size_t kernels)
      : seconds_(seconds), shrinking_(shrinking), slowest_(kernels) {}

  bool is_up() const { return left() <= 0; }
  // So too where of the last kMostLeftOut cases none fitted in.
  bool is_over() const { return is_up() || left_out_at_once_ >= kMostLeftOut; }
  // Whether a kernel's case takes no longer than is left: by its size, and by the slowest but one
  // of the kernel's others that are as large or a little smaller.
  bool fits(std::size_t kernel, const Recipe& recipe) const;
  // The same of the laws of a case that took so long itself.
  bool laws_fit(double seconds_of_case) const;
  void note_left_out();
  void note_tried() { left_out_at_once_ = 0; }
  void note(std::size_t kernel, const Recipe& recipe, double seconds);
  std::int64_t left_out() const { return left_out_; }
  // Of a failure, whose case took so long. Those that are found last have together a tenth of the
  // campaign's seconds past its end.
  ShrinkBudget for_shrinking(double seconds_of_case) const;

 private:
  double left() const { return seconds_ - watch_.seconds(); }

  static constexpr std::int64_t kMostLeftOut = 100;
  // In seconds. One alone may have been slow for another reason, as kernels are compiled or a
  // process is started.
  struct Slowest {
    double first = 0, second = 0;
    double usual() const { return second > 0 ? second : first; }
  };
  using BySize = std::array<Slowest, 64>;  // by the power of two of the size

  Stopwatch watch_;
  double seconds_;
  ShrinkBudget shrinking_;
  std::vector<BySize> slowest_;  // of each kernel
  std::int64_t left_out_ = 0;
  std::int64_t left_out_at_once_ = 0;
};

}  // namespace mlacheck
