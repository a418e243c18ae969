#pragma once

#include <atomic>
#include <thread>

namespace mlacheck {

// Ends the calls that are under way after so many seconds, as a signal does (call_stop.h).
class CallDeadline {
 public:
  explicit CallDeadline(double seconds);
  bool has_passed() const { return has_passed_; }

 private:
  std::atomic<bool> has_passed_ = false;
  std::jthread thread_;
};

}  // namespace mlacheck
