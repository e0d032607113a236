#include <algorithm>
#include <bit>
#include <functional>
#include <optional>

#include "analyze/diff/match/pairing.h"
#include "core/mix64.h"

namespace ttap {
namespace {

// A key without a copy of it.
struct KeyView {
  std::string_view name;
  uint32_t call;
  std::string_view role;
  std::string_view path;
  bool operator==(const KeyView&) const = default;
};

KeyView key_of(const Side& side, size_t index) {
  const TensorRecord record = side.tensor(index);
  return {record.name, record.call, record.role, record.path};
}

uint64_t hash_of(const KeyView& key) {
  const std::hash<std::string_view> hash;
  return mix64(hash(key.name) ^ mix64(hash(key.path) + mix64(hash(key.role) + key.call)));
}

// Where a key is among those tensors of a side that have no partner yet. Of equal keys the first is found.
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
      if (slot.check == check_of(hash) && key_of(side_, slot.index) == key) return slot.index;
    }
  }

 private:
  struct Slot {
    uint32_t check = 0;
    uint32_t index = kNoTensor;
  };
  static uint32_t check_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }

  void add(uint32_t index) {
    const uint64_t hash = hash_of(key_of(side_, index));
    size_t at = hash & (slots_.size() - 1);
    while (slots_[at].index != kNoTensor) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = {check_of(hash), index};
  }

  const Side& side_;
  std::vector<Slot> slots_;
};

// Whether two programs give something else to an argument of one name: activations here, and positions there.
bool are_other_arguments(const TensorRecord& a, const TensorRecord& b) {
  const auto is_float = [](const TensorRecord& record) {
    return dtype_info(dtype_of(record)).kind == DTypeKind::kFloat;
  };
  return a.role == "in" && is_float(a) != is_float(b) && !std::ranges::equal(a.shape, b.shape);
}

}  // namespace

// Both sides mostly run in the same order: B's next tensor is tried first, and only where it is another one is the
// index made and asked.
void match_by_key(const Side& a, const Side& b, Pairing& pairing) {
  std::optional<KeyIndex> index;
  size_t next = 0;
  size_t free_b = pairing.count_b();
  for (size_t i = 0; i < pairing.count_a() && free_b > 0; ++i) {
    if (!pairing.is_free_a(i)) continue;
    const KeyView key = key_of(a, i);
    std::optional<size_t> found;
    if (next < pairing.count_b() && pairing.is_free_b(next) && key_of(b, next) == key) {
      found = next;
    } else {
      if (!index) index.emplace(b, [&](size_t tensor) { return pairing.is_free_b(tensor); });
      found = index->find(key);
    }
    if (!found || pairing.has_b(*found) || are_other_arguments(a.tensor(i), b.tensor(*found))) continue;
    pairing.join(i, *found, MatchedBy::kKey);
    next = *found + 1;
    --free_b;
  }
}

void match_first_results(const Side& a, const Side& b, Pairing& pairing) {
  const auto is_result = [](const TensorRecord& record, std::string_view path) {
    return record.role == "out" && record.path == path;
  };
  std::optional<KeyIndex> index;
  for (size_t i = 0; i < pairing.count_a(); ++i) {
    if (!pairing.is_free_a(i)) continue;
    const TensorRecord record = a.tensor(i);
    const bool is_only = is_result(record, "");
    if ((!is_only && !is_result(record, "/0")) || record.event >= a.event_count() ||
        a.event(record.event).kind != "module")
      continue;
    if (!index) index.emplace(b, [&](size_t tensor) { return pairing.is_free_b(tensor); });
    const auto found = index->find({record.name, record.call, "out", is_only ? "/0" : ""});
    if (!found || pairing.has_b(*found) || !std::ranges::equal(record.shape, b.tensor(*found).shape)) continue;
    pairing.join(i, *found, MatchedBy::kKey);
  }
}

void match_by_map(const Side& a, const Side& b, const NameMap& map, Pairing& pairing) {
  const KeyIndex index(a, [&](size_t tensor) { return !pairing.has_a(tensor); });
  for (size_t i = 0; i < pairing.count_b(); ++i) {
    if (pairing.has_b(i)) continue;
    const std::string given = to_string(b.tensor(i).key());
    const std::string mapped = map.apply(given);
    if (mapped == given) continue;
    const auto key = parse_key(mapped);
    if (!key.ok()) continue;
    const auto found = index.find({key->name, key->call, key->role, key->path});
    // Parts of two quantized tensors wait for those.
    if (!found || pairing.has_a(*found) || !(pairing.is_free_a(*found) || pairing.is_free_b(i))) continue;
    pairing.join(*found, i, MatchedBy::kMap);
  }
}

}  // namespace ttap
