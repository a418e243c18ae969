#include "cuda/plugin/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace mlacheck {

namespace {

// The error's number; 0 when the file has its size for good.
int give_size(int file_descriptor, std::size_t bytes) {
  // Reserved now: a page that is missing later would be a SIGBUS.
  const int error = posix_fallocate(file_descriptor, 0, static_cast<off_t>(bytes));
  if (error != 0) return error;
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  return fcntl(file_descriptor, F_ADD_SEALS, kSeals) == 0 ? 0 : errno;
}

std::span<std::byte> map(int file_descriptor, std::size_t bytes) {
  void* block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_descriptor, 0);
  if (block == MAP_FAILED) return {};
  return {static_cast<std::byte*>(block), bytes};
}

}  // namespace

SharedMemory::SharedMemory(std::size_t bytes, std::string_view purpose) {
  file_descriptor_ = memfd_create("mlacheck", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  int error = file_descriptor_ < 0 ? errno : give_size(file_descriptor_, bytes);
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
