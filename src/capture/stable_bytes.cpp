#include "capture/stable_bytes.h"

#include "store/sources/run_layout.h"

namespace ttap {

bool StableBytes::knows_size(uint64_t byte_count) const {
  const std::lock_guard lock(mutex_);
  return sizes_.contains(byte_count);
}

std::optional<uint32_t> StableBytes::find(const Hash128& hash, uint64_t byte_count) {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(hash);
  if (found == held_.end() || found->second.byte_count != byte_count) return std::nullopt;
  // Somebody may have removed the pass meanwhile.
  const uint32_t pass = found->second.pass;
  std::error_code ignored;
  if (std::filesystem::exists(rank_directory_ / (pass_stem(pass) + ".ttap"), ignored)) return pass;
  if (--sizes_[byte_count] == 0) sizes_.erase(byte_count);
  held_.erase(found);
  return std::nullopt;
}

void StableBytes::add(const Hash128& hash, uint64_t byte_count, uint32_t pass) {
  const std::lock_guard lock(mutex_);
  if (held_.emplace(hash, Held{byte_count, pass}).second) ++sizes_[byte_count];
}

}  // namespace ttap
