#pragma once

#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "sample_tensors.h"
#include "store/foreign/foreign.h"

namespace ttap::test {

// A folder that is gone at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ttap-foreign-XXXXXX").string();
    TTAP_CHECK(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

inline std::vector<std::byte> bytes_of_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  return bytes_of(text);
}

inline void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::vector<NamedTensor> named(const std::vector<SampleTensor>& samples) {
  std::vector<NamedTensor> tensors;
  for (const SampleTensor& sample : samples) tensors.push_back({sample.name, sample.view()});
  return tensors;
}

// Reads every byte that the tensors reach, so that a sanitizer sees a span that leaves its file. A stride of
// zero can make a tiny file say petabytes: only the first and last 65,536 elements are read.
inline void touch(const ForeignTensors& tensors) {
  constexpr uint64_t kPart = 1 << 16;
  std::vector<std::byte> target(kPart * 16);
  for (const ForeignTensor& tensor : tensors.tensors) {
    if (!tensor.group.empty()) continue;  // stands for its parts
    TTAP_CHECK(validate(tensor.view()).ok());
    const LogicalCopy copy(tensor.view());
    const uint64_t count = copy.elements() < kPart ? copy.elements() : kPart;
    copy.copy(0, count, target.data());
    copy.copy(copy.elements() - count, count, target.data());
  }
}

}  // namespace ttap::test
