#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cuda/device/arithmetic.h"
#include "cuda/device/barrier.h"
#include "cuda/device/launch.h"
#include "cuda/device/matrix.h"
#include "cuda/device/memory.h"
#include "cuda/device/thread.h"
#include "cuda/device/warp.h"
#include "cuda/emulator/session.h"

// Small kernels, right and wrong, and what the emulator says of them.
namespace mlacheck::kernel_testing {

using namespace device;  // NOLINT: kernels' own names
using emulator::Report;
using emulator::ReportKind;
using emulator::Session;
using emulator::SessionOptions;
using emulator::Space;

struct Memory {
  alignas(16) std::array<float, 1024> in = {};
  float undeclared[64] = {};
  alignas(16) std::array<float, 1024> out = {};
};

struct Arguments {
  const float* in;  // 1024, read
  float* out;       // 1024, write
};
using Kernel = void (*)(Arguments);

struct Layout {
  device::Barrier barrier[4];
  alignas(128) float x[256];
  alignas(16) std::byte tile[2][1024];
};

inline LaunchShape shape_of(unsigned threads, unsigned blocks = 1) {
  LaunchShape shape;
  shape.threads = threads;
  shape.blocks = blocks;
  shape.shared_bytes = sizeof(Layout);
  return shape;
}

inline void launch_on(Session& session, Memory& memory, Kernel kernel, const LaunchShape& shape) {
  Stream stream(&session);
  launch(stream, kernel, shape, {memory.in.data(), memory.out.data()}, "kernel");
}

inline void declare(Session& session, Memory& memory) {
  session.declare_memory("in", memory.in.data(), sizeof memory.in, emulator::Access::read);
  session.declare_memory("out", memory.out.data(), sizeof memory.out, emulator::Access::write);
}

// The reports of one launch.
inline std::vector<Report> reports_of(Kernel kernel, const LaunchShape& shape,
                                      SessionOptions options = {}) {
  Memory memory;
  for (std::size_t i = 0; i < memory.in.size(); ++i) memory.in[i] = static_cast<float>(i);
  Session session(std::move(options));
  declare(session, memory);
  try {
    launch_on(session, memory, kernel, shape);
  } catch (const std::runtime_error& error) {
    EXPECT_FALSE(session.reports().empty()) << error.what();
    if (!session.reports().empty()) {
      EXPECT_EQ(session.reports().front().text(), error.what());
    }
  }
  return session.reports();
}

inline constexpr std::uint64_t kSeeds = 8;

// Every schedule shows the fault, as that kind and nothing else.
inline Report expect_report(ReportKind kind, Kernel kernel, const LaunchShape& shape) {
  Report last;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SessionOptions options;
    options.seed = seed;
    const std::vector<Report> reports = reports_of(kernel, shape, options);
    EXPECT_FALSE(reports.empty()) << "seed " << seed << ": no report";
    for (const Report& report : reports) {
      EXPECT_EQ(name_of(report.kind), name_of(kind)) << "seed " << seed << ": " << report.text();
      EXPECT_EQ(report.kernel, "kernel");
    }
    if (!reports.empty()) last = reports.front();
  }
  return last;
}

inline void expect_clean(Kernel kernel, const LaunchShape& shape) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SessionOptions options;
    options.seed = seed;
    for (const Report& report : reports_of(kernel, shape, options))
      ADD_FAILURE() << "seed " << seed << ": " << report.text();
  }
}

// What the kernel leaves in `out`; it must be clean.
inline std::array<float, 1024> out_of(Kernel kernel, const LaunchShape& shape,
                                      SessionOptions options = {}) {
  Memory memory;
  for (std::size_t i = 0; i < memory.in.size(); ++i) memory.in[i] = static_cast<float>(i);
  Session session(std::move(options));
  declare(session, memory);
  launch_on(session, memory, kernel, shape);
  return memory.out;
}

}  // namespace mlacheck::kernel_testing
