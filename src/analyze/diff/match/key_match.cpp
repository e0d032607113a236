#include <algorithm>
#include <optional>

#include "analyze/diff/match/key_index.h"
#include "analyze/diff/match/pairing.h"

namespace ttap {
namespace {

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
  const auto goes_by_key = [&](size_t tensor) { return pairing.is_free_b(tensor) && !pairing.is_renamed_b(tensor); };
  size_t next = 0;
  size_t free_b = pairing.count_b();
  for (size_t i = 0; i < pairing.count_a() && free_b > 0; ++i) {
    if (!pairing.is_free_a(i)) continue;
    const KeyView key = key_view_of(a, i);
    std::optional<size_t> found;
    if (next < pairing.count_b() && goes_by_key(next) && key_view_of(b, next) == key) {
      found = next;
    } else {
      if (!index) index.emplace(b, [&](size_t tensor) { return goes_by_key(tensor); });
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
    if (!index)
      index.emplace(b, [&](size_t tensor) { return pairing.is_free_b(tensor) && !pairing.is_renamed_b(tensor); });
    const auto found = index->find({record.name, record.call, "out", is_only ? "/0" : ""});
    if (!found || pairing.has_b(*found) || !std::ranges::equal(record.shape, b.tensor(*found).shape)) continue;
    pairing.join(i, *found, MatchedBy::kKey);
  }
}

}  // namespace ttap
