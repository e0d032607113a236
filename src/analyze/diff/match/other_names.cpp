#include "analyze/diff/match/other_names.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

namespace ttap {
namespace {

// The matched tensors of one side, by what all names of a tensor share: its event, role and path.
class MatchedTensors {
 public:
  explicit MatchedTensors(const Side& side) : side_(side) {}

  void add(uint32_t tensor) {
    if (const TensorRecord record = side_.tensor(tensor); record.event < side_.event_count())
      known_.emplace(record.event, record.role, record.path);
  }
  bool has(uint32_t tensor) const {
    const TensorRecord record = side_.tensor(tensor);
    return known_.contains({record.event, record.role, record.path});
  }

 private:
  const Side& side_;
  std::set<std::tuple<uint32_t, std::string_view, std::string_view>> known_;
};

}  // namespace

void close_other_names(const Side& a, const Side& b, Pairing& pairing) {
  if (!pairing.has_free()) return;
  MatchedTensors of_a(a), of_b(b);
  for (uint32_t i = 0; i < a.tensor_count(); ++i)
    if (pairing.has_a(i)) of_a.add(i);
  for (uint32_t i = 0; i < b.tensor_count(); ++i)
    if (pairing.has_b(i)) of_b.add(i);
  for (uint32_t i = 0; i < a.tensor_count(); ++i)
    if (pairing.is_free_a(i) && of_a.has(i)) pairing.close_a(i, false);
  for (uint32_t i = 0; i < b.tensor_count(); ++i)
    if (pairing.is_free_b(i) && of_b.has(i)) pairing.close_b(i, false);
}

void erase_other_names(const Side& a, const Side& b, std::vector<Match>& matches) {
  const auto is_matched = [](const Match& match) { return match.a != kNoTensor && match.b != kNoTensor; };
  if (std::ranges::all_of(matches, is_matched)) return;
  MatchedTensors of_a(a), of_b(b);
  for (const Match& match : matches) {
    if (!is_matched(match)) continue;
    of_a.add(match.a);
    of_b.add(match.b);
  }
  std::erase_if(matches, [&](const Match& match) {
    if (match.dropped || is_matched(match)) return false;
    return match.b == kNoTensor ? of_a.has(match.a) : of_b.has(match.b);
  });
}

}  // namespace ttap
