#pragma once

#include <mutex>
#include <set>

#include "cuda/emulator/mutation.h"

namespace mlacheck::emulator {

// The call sites that kernels came by.
class CallSiteLog {
 public:
  void add(Primitive primitive, const Site& site) {
    const std::lock_guard lock(mutex_);
    sites_.insert({primitive, site.file, site.line, site.column});
  }
  const std::set<CallSite>& sites() const { return sites_; }

 private:
  std::mutex mutex_;
  std::set<CallSite> sites_;
};

}  // namespace mlacheck::emulator
