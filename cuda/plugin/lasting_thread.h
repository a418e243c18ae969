#pragma once

#include <functional>

namespace mlacheck {

// Runs it on a thread that ends with this process alone, and waits for it. `task` must not throw.
void on_lasting_thread(const std::function<void()>& task);

}  // namespace mlacheck
