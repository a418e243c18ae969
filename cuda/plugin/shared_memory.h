#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "cuda/plugin/block_parts.h"

namespace mlacheck {

// Memory that a worker process maps too. Its size is sealed: whoever cut it would end every process
// that maps it.
class SharedMemory {
 public:
  // Throws std::system_error, naming `purpose`, when memory is short.
  SharedMemory(std::size_t bytes, std::string_view purpose);
  // The same of parts of it. The parts, which end with the
  // last byte, are the memory; what lies between is address space, and becomes memory, of zeros,
  // where it is touched.
  SharedMemory(std::span<const BlockPart> parts, std::string_view purpose);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  int file_descriptor() const { return file_descriptor_; }
  std::span<std::byte> bytes() const { return bytes_; }
  // Whether none of the bytes [begin, end), which are in no part, have been written. Throws
  // std::system_error where that cannot be told.
  bool is_blank(std::uint64_t begin, std::uint64_t end) const;

 private:
  void release();

  int file_descriptor_ = -1;
  std::span<std::byte> bytes_;
};

// The other process's view of it; empty when it cannot be mapped or is smaller than `least`.
std::span<std::byte> map_shared_memory(int file_descriptor, std::size_t least);

}  // namespace mlacheck
