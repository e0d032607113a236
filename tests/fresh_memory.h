#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace ttap {

// Memory that nobody has written to.
class FreshMemory {
 public:
  static constexpr size_t kSize = 32 << 20;

  FreshMemory()
      : data_(static_cast<char*>(::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~FreshMemory() { ::munmap(data_, kSize); }
  FreshMemory(const FreshMemory&) = delete;
  FreshMemory& operator=(const FreshMemory&) = delete;

  char* data() const { return data_; }

 private:
  char* data_;
};

// What the kernel says of the mapping an address is in: "hg" is that large pages were asked for.
inline bool large_pages_asked_for(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  bool within = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream words(line);
    if (words >> std::hex >> begin >> dash >> end && dash == '-') within = begin <= wanted && wanted < end;
    if (within && line.starts_with("VmFlags:")) return (line + ' ').find(" hg ") != std::string::npos;
  }
  return false;
}

inline bool kernel_has_large_pages() { return std::filesystem::exists("/sys/kernel/mm/transparent_hugepage"); }

}  // namespace ttap
