#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "format/segment_view.h"
#include "store/files/mapped_file.h"
#include "ttap/fingerprint.h"

namespace ttap {

// The other passes of a rank, which may hold bytes that a pass refers to. Each is opened when it is asked for the first
// time, and stays open. Any thread may ask.
class SiblingPasses {
 public:
  explicit SiblingPasses(const std::filesystem::path& pass)
      : directory_(std::filesystem::absolute(pass).parent_path()) {}

  std::filesystem::path path_of(uint32_t pass) const;
  // Why not all of its rows can be read, behind "pass 3, which"; empty when they can.
  std::string problem_of(uint32_t pass) const;
  // Bytes of a row of that pass with this hash, not checked yet; nothing when the pass or such a row is not there.
  std::optional<std::span<const std::byte>> find(uint32_t pass, const Hash128& hash, uint64_t byte_count) const;

 private:
  struct Sibling {
    std::shared_ptr<const MappedFile> file = {};
    std::unordered_map<Hash128, std::span<const std::byte>> blobs = {};
    std::string problem = {};
  };
  Sibling open(uint32_t pass) const;
  // Under the lock.
  const Sibling& opened(uint32_t pass) const;

  const std::filesystem::path directory_;
  mutable std::mutex mutex_;
  mutable std::map<uint32_t, Sibling> opened_;
};

}  // namespace ttap
