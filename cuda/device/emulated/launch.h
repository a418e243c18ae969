#pragma once

#include <memory>

#include "cuda/emulator/session.h"

namespace mlacheck::device {

// MLACHECK_MULTIPROCESSORS in the environment makes the emulator plan like another GPU.
inline Machine machine() { return {emulator::multiprocessors(), {}}; }

class Stream {
 public:
  explicit Stream(void* session)
      : own_(session == nullptr ? std::make_unique<emulator::Session>() : nullptr),
        session_(session == nullptr ? own_.get() : static_cast<emulator::Session*>(session)) {}
  emulator::Session& session() const { return *session_; }

 private:
  std::unique_ptr<emulator::Session> own_;
  emulator::Session* session_;
};

template <class Arguments>
void launch(Stream& stream, void (*kernel)(Arguments), const LaunchShape& shape,
            const std::type_identity_t<Arguments>& arguments, const char* name) {
  struct Call {
    void (*kernel)(Arguments);
    const Arguments* arguments;
  };
  const Call call = {kernel, &arguments};
  emulator::Launch launch;
  launch.name = name;
  launch.blocks = shape.blocks;
  launch.blocks_y = shape.blocks_y;
  launch.threads = shape.threads;
  launch.shared_bytes = shape.shared_bytes;
  launch.early = shape.may_start_early;
  launch.arguments = &call;
  launch.body = [](const void* what) {
    const Call& made = *static_cast<const Call*>(what);
    made.kernel(*made.arguments);
  };
  stream.session().launch(launch);
}

inline void declare_memory(Stream& stream, const char* name, const void* data, std::uint64_t bytes,
                           Access access) {
  const auto as_emulated = access == Access::read    ? emulator::Access::read
                           : access == Access::write ? emulator::Access::write
                                                     : emulator::Access::read_write;
  stream.session().declare_memory(name, data, bytes, as_emulated);
}

}  // namespace mlacheck::device
