#include "capture/open_passes.h"

#include <utility>

namespace ttap {

uint32_t OpenPass::next_call(const NameEntry& entry, bool again) {
  std::vector<uint32_t>& calls = again ? calls_again_ : calls_;
  if (calls.size() <= entry.index) calls.resize(entry.index + 1);
  return ++calls[entry.index];
}

uint32_t OpenPasses::open(uint64_t start_ns) {
  open_.emplace(next_, start_ns);
  return next_++;
}

uint32_t OpenPasses::open_as_current(uint64_t start_ns) {
  TTAP_CHECK(!current_);
  current_ = open(start_ns);
  return *current_;
}

std::optional<DropCounts> OpenPasses::close(uint32_t number) {
  const auto found = open_.find(number);
  if (found == open_.end()) return std::nullopt;
  const DropCounts drops = found->second.drops;
  open_.erase(found);
  if (current_ == number) current_.reset();
  return drops;
}

std::vector<uint32_t> OpenPasses::numbers() const {
  std::vector<uint32_t> numbers;
  for (const auto& [number, pass] : open_) numbers.push_back(number);
  return numbers;
}

OpenPasses::Found OpenPasses::find(std::optional<uint32_t> number) {
  if (!number) number = current_;
  if (!number) return {};
  const auto found = open_.find(*number);
  return {*number, found == open_.end() ? nullptr : &found->second};
}

void OpenPasses::count_drop(const Found& where, uint64_t DropCounts::*cause, uint64_t count) {
  if (where.pass != nullptr) where.pass->drops.*cause += count;
  all_drops_.*cause += count;
}

}  // namespace ttap
