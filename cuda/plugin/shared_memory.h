#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace mlacheck {

// Memory that a worker process maps too. Its size is sealed: whoever cut it would end every process
// that maps it.
class SharedMemory {
 public:
  // Throws std::system_error, naming `purpose`, when memory is short.
  SharedMemory(std::size_t bytes, std::string_view purpose);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  int file_descriptor() const { return file_descriptor_; }
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  void release();

  int file_descriptor_ = -1;
  std::span<std::byte> bytes_;
};

// The other process's view of it; empty when it cannot be mapped or is smaller than `least`.
std::span<std::byte> map_shared_memory(int file_descriptor, std::size_t least);

}  // namespace mlacheck
