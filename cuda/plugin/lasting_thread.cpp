#include "cuda/plugin/lasting_thread.h"

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

namespace mlacheck {

namespace {

class LastingThread {
 public:
  LastingThread() {
    std::thread([this] { work(); }).detach();
  }

  std::future<void> add(const std::function<void()>& task) {
    const std::lock_guard lock(mutex_);
    tasks_.emplace_back(task);
    added_.notify_one();
    return tasks_.back().get_future();
  }

 private:
  [[noreturn]] void work() {
    while (true) {
      std::unique_lock lock(mutex_);
      added_.wait(lock, [this] { return !tasks_.empty(); });
      std::packaged_task<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<std::packaged_task<void()>> tasks_;
};

}  // namespace

void on_lasting_thread(const std::function<void()>& task) {
  // Never destroyed: its thread waits there when the process ends.
  static LastingThread& thread = *new LastingThread;
  thread.add(task).get();
}

}  // namespace mlacheck
