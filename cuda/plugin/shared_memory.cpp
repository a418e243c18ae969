#include "cuda/plugin/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

namespace mlacheck {

namespace {

// The error's number; 0 when the file has its size for good.
int give_size(int file_descriptor, std::span<const BlockPart> parts) {
  // Reserved now: a page that is missing later would be a SIGBUS.
  for (const BlockPart& part : parts) {
    const auto begin = static_cast<off_t>(part.begin);
    const int error = posix_fallocate(file_descriptor, begin, static_cast<off_t>(part.end) - begin);
    if (error != 0) return error;
  }
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  return fcntl(file_descriptor, F_ADD_SEALS, kSeals) == 0 ? 0 : errno;
}

std::span<std::byte> map(int file_descriptor, std::size_t bytes) {
  void* block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_descriptor, 0);
  if (block == MAP_FAILED) return {};
  return {static_cast<std::byte*>(block), bytes};
}

// Where the next data or hole begins; `end` where there is none.
off_t seek(int file_descriptor, off_t from, int whence, off_t end) {
  const off_t at = lseek(file_descriptor, from, whence);
  if (at >= 0) return at;
  if (errno == ENXIO) return end;
  throw std::system_error(
      errno, std::generic_category(),
      fmt::format("what shared memory holds from byte {} on cannot be told", from));
}

}  // namespace

SharedMemory::SharedMemory(std::size_t bytes, std::string_view purpose)
    : SharedMemory(std::array{BlockPart{0, bytes}}, purpose) {}

SharedMemory::SharedMemory(std::span<const BlockPart> parts, std::string_view purpose) {
  const std::size_t bytes = parts.empty() ? 0 : parts.back().end;
  file_descriptor_ = memfd_create("mlacheck", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  int error = file_descriptor_ < 0 ? errno : give_size(file_descriptor_, parts);
  if (error == 0) {
    bytes_ = map(file_descriptor_, bytes);
    if (bytes_.empty()) error = errno;
  }
  if (error != 0) {
    release();
    throw std::system_error(error, std::generic_category(),
                            fmt::format("shared memory of {} bytes for {}", bytes, purpose));
  }
}

SharedMemory::~SharedMemory() { release(); }

bool SharedMemory::is_blank(std::uint64_t begin, std::uint64_t end) const {
  const auto is_zero = [](std::byte b) { return b == std::byte{0}; };
  const auto last = static_cast<off_t>(end);
  for (off_t at = static_cast<off_t>(begin); at < last;) {
    at = seek(file_descriptor_, at, SEEK_DATA, last);
    if (at >= last) break;
    const off_t hole = std::min(seek(file_descriptor_, at, SEEK_HOLE, last), last);
    if (!std::all_of(bytes_.data() + at, bytes_.data() + hole, is_zero)) return false;
    at = hole;
  }
  return true;
}

void SharedMemory::release() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
  if (file_descriptor_ >= 0) close(file_descriptor_);
}

std::span<std::byte> map_shared_memory(int file_descriptor, std::size_t least) {
  struct stat info = {};
  if (fstat(file_descriptor, &info) != 0 || info.st_size < 0) return {};
  const auto bytes = static_cast<std::size_t>(info.st_size);
  if (bytes < least) return {};
  return map(file_descriptor, bytes);
}

}  // namespace mlacheck
