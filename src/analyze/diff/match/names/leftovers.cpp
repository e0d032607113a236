#include "analyze/diff/match/names/leftovers.h"

#include <algorithm>
#include <functional>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "analyze/diff/match/call_kinds.h"
#include "analyze/diff/match/longest_ascent.h"
#include "core/mix64.h"

namespace ttap {
namespace {

uint64_t hash_of_name(std::string_view text) { return mix64(std::hash<std::string_view>()(text)) | 1; }  // never 0

uint8_t values_of(const TensorRecord& record) {
  switch (dtype_info(record.true_dtype.value_or(record.dtype)).kind) {
    case DTypeKind::kBool: return 0;
    case DTypeKind::kUnsigned:
    case DTypeKind::kSigned: return 1;
    case DTypeKind::kFloat: return 2;
    case DTypeKind::kComplex: return 3;
  }
  return 0;
}

void describe_shape(const TensorRecord& record, Traits& traits) {
  uint64_t count = 1;
  for (const int64_t size : record.shape) {
    count *= static_cast<uint64_t>(size);
    traits.shape = mix64(traits.shape + static_cast<uint64_t>(size) + 1);
    if (size != 1) traits.squeezed = mix64(traits.squeezed + static_cast<uint64_t>(size) + 1);
  }
  if (!record.shape.empty()) traits.width = record.shape.back();
  // Without elements only the shape tells tensors apart.
  traits.signature = mix64(hash_of_name(record.role) + (count != 0 ? count : traits.squeezed));
}

class Describer {
 public:
  explicit Describer(const Side& side) : side_(side), kinds_(side) {}

  void add(uint32_t tensor) {
    const TensorRecord record = side_.tensor(tensor);
    Traits traits{.tensor = tensor, .call = record.call, .values = values_of(record)};
    describe_shape(record, traits);
    traits.path = hash_of_name(record.path);
    traits.name = hash_of_name(record.name);
    std::string full(record.name);
    bool numbered = false;
    if (record.event < side_.event_count()) {
      const EventRecord event = side_.event(record.event);
      traits.kind = hash_of_name(event.kind);
      traits.inner = kinds_.is_inner(record);
      traits.hands_on = kinds_.is_handed_on(record);
      numbered = event.kind == "node";
      if (event.parent < side_.event_count()) {
        const std::string_view parent = side_.event(event.parent).name;
        if (!record.name.starts_with(parent)) full = std::string(parent) + "." + full;
      }
    }
    SplitName split = split_name(full, numbered);
    traits.numbers = split.numbers;
    const auto [entry, is_new] = ids_.try_emplace(split.pattern, static_cast<uint32_t>(ids_.size()));
    if (is_new) out.patterns.push_back(std::move(split.pattern));
    traits.pattern = entry->second;
    out.traits.push_back(traits);
  }

  Leftovers out;

 private:
  const Side& side_;
  const CallKinds kinds_;
  std::unordered_map<std::string, uint32_t> ids_;
};

struct Anchor {
  uint32_t a;
  uint32_t b;
};

// The matches that are in the same order on both sides, as many as can be.
std::vector<Anchor> anchors_of(const Pairing& pairing) {
  std::vector<Anchor> all;
  for (size_t a = 0; a < pairing.count_a(); ++a)
    if (pairing.has_a(a)) all.push_back({static_cast<uint32_t>(a), pairing.of_a(a).b});
  if (std::ranges::is_sorted(all, {}, &Anchor::b)) return all;

  std::vector<uint32_t> at_b;
  for (const Anchor& anchor : all) at_b.push_back(anchor.b);
  std::vector<Anchor> kept;
  for (const uint32_t i : longest_ascent(at_b)) kept.push_back(all[i]);
  return kept;
}

void set_gaps(std::span<Traits> leftovers, const std::vector<Anchor>& anchors, uint32_t Anchor::*side) {
  uint32_t gap = 0;
  for (Traits& traits : leftovers) {
    while (gap < anchors.size() && anchors[gap].*side < traits.tensor) ++gap;
    traits.gap = gap;
  }
}

void set_partners(const Side& a, const Side& b, const Pairing& pairing, LeftoverPair& left) {
  std::unordered_map<uint64_t, uint64_t> of_a, of_b;
  for (const Traits& traits : left.a.traits) of_a.emplace(traits.name, 0);
  for (const Traits& traits : left.b.traits) of_b.emplace(traits.name, 0);
  for (size_t i = 0; i < pairing.count_a(); ++i) {
    if (!pairing.has_a(i)) continue;
    const uint64_t name_a = hash_of_name(a.tensor(i).name);
    const uint64_t name_b = hash_of_name(b.tensor(pairing.of_a(i).b).name);
    if (const auto found = of_a.find(name_a); found != of_a.end()) found->second = name_b;
    if (const auto found = of_b.find(name_b); found != of_b.end()) found->second = name_a;
  }
  for (Traits& traits : left.a.traits) traits.partner = of_a[traits.name];
  for (Traits& traits : left.b.traits) traits.partner = of_b[traits.name];
}

// One library counts layers from 0 and the other from 1.
void count_from_zero(LeftoverPair& left) {
  const auto range_of = [](const Leftovers& side) {
    std::pair<uint64_t, uint64_t> range{UINT64_MAX, 0};
    for (const Traits& traits : side.traits) {
      if (traits.numbers.count == 0) continue;
      range.first = std::min(range.first, traits.numbers.last);
      range.second = std::max(range.second, traits.numbers.last);
    }
    return range;
  };
  const auto range_a = range_of(left.a), range_b = range_of(left.b);
  const auto is_shifted = [](const auto& from, const auto& to) {
    return from.first == 0 && to.first == 1 && to.second == from.second + 1;
  };
  Leftovers* shifted = is_shifted(range_a, range_b) ? &left.b : is_shifted(range_b, range_a) ? &left.a : nullptr;
  if (shifted == nullptr) return;
  for (Traits& traits : shifted->traits) {
    if (traits.numbers.count > 0) --traits.numbers.last;
    if (traits.numbers.count > 1 && traits.numbers.before_last > 0) --traits.numbers.before_last;
  }
}

void find_namesakes(std::span<Traits> traits, std::span<const Traits> others) {
  const auto key_of = [](const Traits& t) { return mix64(t.signature + mix64(t.numbers.last)); };
  std::unordered_set<uint64_t> keys;
  for (const Traits& other : others)
    if (other.numbers.count > 0) keys.insert(key_of(other));
  for (Traits& one : traits) one.has_namesake = one.numbers.count > 0 && keys.contains(key_of(one));
}

}  // namespace

LeftoverPair find_leftovers(const Side& a, const Side& b, const SharedValues& values, const Pairing& pairing) {
  size_t count_a = 0, count_b = 0;
  for (size_t i = 0; i < pairing.count_a(); ++i) count_a += pairing.is_free_a(i);
  for (size_t i = 0; i < pairing.count_b(); ++i) count_b += pairing.is_free_b(i);
  if (count_a == 0 || count_b == 0) return {};

  Describer of_a(a), of_b(b);
  for (uint32_t i = 0; i < pairing.count_a(); ++i)
    if (pairing.is_free_a(i)) of_a.add(i);
  for (uint32_t i = 0; i < pairing.count_b(); ++i)
    if (pairing.is_free_b(i)) of_b.add(i);
  LeftoverPair left{std::move(of_a.out), std::move(of_b.out)};
  for (Traits& traits : left.a.traits) traits.value = values.of_a[traits.tensor];
  for (Traits& traits : left.b.traits) traits.value = values.of_b[traits.tensor];
  const std::vector<Anchor> anchors = anchors_of(pairing);
  left.gaps = static_cast<uint32_t>(anchors.size()) + 1;
  set_gaps(left.a.traits, anchors, &Anchor::a);
  set_gaps(left.b.traits, anchors, &Anchor::b);
  set_partners(a, b, pairing, left);
  count_from_zero(left);
  find_namesakes(left.a.traits, left.b.traits);
  find_namesakes(left.b.traits, left.a.traits);
  return left;
}

}  // namespace ttap
