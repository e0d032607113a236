#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "analyze/diff/result/match.h"
#include "analyze/diff/sides/side.h"
#include "core/mix64.h"

namespace ttap {

// A key without a copy of it.
struct KeyView {
  std::string_view name;
  uint32_t call;
  std::string_view role;
  std::string_view path;
  bool operator==(const KeyView&) const = default;
};

inline KeyView key_view_of(const Side& side, size_t index) {
  const TensorRecord record = side.tensor(index);
  return {record.name, record.call, record.role, record.path};
}

inline uint64_t hash_of(const KeyView& key) {
  const std::hash<std::string_view> hash;
  return mix64(hash(key.name) ^ mix64(hash(key.path) + mix64(hash(key.role) + key.call)));
}

// Where a key is among those tensors of a side for which `is_free` says so. Of equal keys the first is found.
class KeyIndex {
 public:
  template <class IsFree>
  KeyIndex(const Side& side, IsFree&& is_free) : side_(side) {
    const size_t count = side.tensor_count();
    size_t wanted = 0;
    for (size_t i = 0; i < count; ++i) wanted += is_free(i);
    slots_.resize(std::bit_ceil(2 * wanted + 1));
    for (size_t i = 0; i < count; ++i)
      if (is_free(i)) add(static_cast<uint32_t>(i));
  }

  std::optional<size_t> find(const KeyView& key) const {
    const uint64_t hash = hash_of(key);
    for (size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.index == kNoTensor) return std::nullopt;
      if (slot.check == check_of(hash) && key_view_of(side_, slot.index) == key) return slot.index;
    }
  }

 private:
  struct Slot {
    uint32_t check = 0;
    uint32_t index = kNoTensor;
  };
  static uint32_t check_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }

  void add(uint32_t index) {
    const uint64_t hash = hash_of(key_view_of(side_, index));
    size_t at = hash & (slots_.size() - 1);
    while (slots_[at].index != kNoTensor) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = {check_of(hash), index};
  }

  const Side& side_;
  std::vector<Slot> slots_;
};

}  // namespace ttap
