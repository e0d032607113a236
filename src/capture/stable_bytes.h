#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "ttap/fingerprint.h"

namespace ttap {

// Which pass holds which bytes, of tensors that are the same in most passes (Place::stable). Knows only passes that
// have ended well, whose segment stays. Any thread may ask.
class StableBytes {
 public:
  explicit StableBytes(std::filesystem::path rank_directory) : rank_directory_(std::move(rank_directory)) {}

  // The pass that holds them, if it is still there. A size that was never added costs nothing to ask for.
  std::optional<uint32_t> find(const Hash128& hash, uint64_t byte_count);
  bool knows_size(uint64_t byte_count) const;
  void add(const Hash128& hash, uint64_t byte_count, uint32_t pass);

 private:
  struct Held {
    uint64_t byte_count;
    uint32_t pass;
  };
  const std::filesystem::path rank_directory_;
  mutable std::mutex mutex_;
  std::unordered_map<Hash128, Held> held_;
  std::map<uint64_t, uint64_t> sizes_;  // how many of each size are held
};

}  // namespace ttap
