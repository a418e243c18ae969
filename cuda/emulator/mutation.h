#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "cuda/emulator/site.h"

namespace mlacheck::emulator {

// The primitives that order threads or move data asynchronously.
enum class Primitive : std::uint8_t {
  sync_block,
  sync_named,
  sync_warp,
  initialise,
  publish_barriers,
  arrive,
  arrive_expecting,
  wait,
  copy_bulk,
  wait_for_previous_kernel,
};

std::string_view name_of(Primitive primitive);

// A call of one in a kernel's text.
struct CallSite {
  Primitive primitive = Primitive::sync_block;
  std::string file;
  std::uint32_t line = 0;
  std::uint32_t column = 0;

  friend bool operator==(const CallSite&, const CallSite&) = default;
  friend bool operator<(const CallSite& a, const CallSite& b) {
    return std::tie(a.file, a.line, a.column, a.primitive) <
           std::tie(b.file, b.line, b.column, b.primitive);
  }
};

// A change to a kernel, made at run time, to see whether it is noticed. Without an amount the call
// does nothing. An amount is added to the arrivals of initialise, the bytes of arrive_expecting and
// copy_bulk, the threads of sync_named, the parity of wait.
struct Mutation {
  CallSite site;
  std::int32_t amount = 0;

  bool applies(Primitive primitive, const Site& place) const {
    return primitive == site.primitive && place.line == site.line && place.column == site.column &&
           place.file == site.file;
  }
};

}  // namespace mlacheck::emulator
