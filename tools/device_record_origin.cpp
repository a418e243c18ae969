#include "tools/device_record_origin.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "cuda/plugin/device_memory.h"
#include "fixtures/sha256.h"

namespace mlacheck {

namespace {

// A file of 64-bit ELF.
class ElfFile {
 public:
  explicit ElfFile(const std::filesystem::path& path) : path_(path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    if (!file || !bytes_.starts_with(ELFMAG)) fail("is no ELF file");
    const auto header = read<Elf64_Ehdr>(0);
    if (header.e_ident[EI_CLASS] != ELFCLASS64) fail("is no 64-bit ELF file");
    for (std::size_t i = 0; i < header.e_shnum; ++i)
      sections_.push_back(read<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)));
    if (header.e_shstrndx >= sections_.size()) fail("names none of its sections");
    names_ = content(sections_[header.e_shstrndx]);
  }

  // Empty where there is no such section.
  std::string_view section(std::string_view name) const {
    for (const Elf64_Shdr& section : sections_)
      if (section.sh_name < names_.size() && names_.substr(section.sh_name).starts_with(name) &&
          names_.substr(section.sh_name + name.size()).starts_with('\0'))
        return content(section);
    return {};
  }
  std::string_view bytes() const { return bytes_; }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw std::runtime_error(fmt::format("{}: {}", path_.string(), what));
  }
  template <class T>
  T read(std::size_t offset) const {
    T value;
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) fail("is cut short");
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  std::string_view content(const Elf64_Shdr& section) const {
    if (section.sh_type == SHT_NOBITS) return {};
    if (section.sh_offset > bytes_.size() || bytes_.size() - section.sh_offset < section.sh_size)
      fail("is cut short");
    return std::string_view(bytes_).substr(section.sh_offset, section.sh_size);
  }

  std::filesystem::path path_;
  std::string bytes_;
  std::vector<Elf64_Shdr> sections_;
  std::string_view names_;
};

}  // namespace

DeviceCode device_code_of(const std::filesystem::path& library) {
  const ElfFile file(library);
  const std::string_view code = file.section(".nv_fatbin");
  const auto line_at = [](std::string_view text) {
    return std::string(text.substr(0, text.find('\0')));
  };
  // ptxas leaves its version beside the code, the host's compiler in .comment.
  const std::size_t version = code.find("Cuda compilation tools, ");
  return {code.empty() ? "the whole library" : ".nv_fatbin",
          sha256_hex(code.empty() ? file.bytes() : code),
          version == code.npos ? line_at(file.section(".comment")) : line_at(code.substr(version))};
}

bool is_on_device(const KernelLibrary& library) {
  for (const mlacheck_kernel* kernel : library.kernels())
    if (kernel->memory == MLACHECK_DEVICE) return true;
  return false;
}

RecordOrigin origin_of(const KernelLibrary& library) {
  RecordOrigin origin;
  origin.gpu = "emulator";
  origin.driver = "none";
  if (is_on_device(library)) {
    const std::optional<GpuInfo> gpu = find_gpu();
    if (!gpu)
      throw std::runtime_error(
          fmt::format("{} wants device memory, and there is no GPU here", library.path().string()));
    origin.gpu = gpu->name;
    origin.compute_capability = gpu->compute_capability;
    origin.driver = gpu->driver;
  }
  origin.library = library.name();
  origin.library_version = library.version();
  const DeviceCode code = device_code_of(library.path());
  origin.compiler = code.compiler;
  origin.device_code = code.what;
  origin.device_code_sha256 = code.sha256;
  return origin;
}

}  // namespace mlacheck
