#include "analyze/diff/match/names/renaming.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "analyze/diff/match/names/name_likeness.h"
#include "analyze/diff/sides/made_value.h"

namespace ttap {
namespace {

constexpr float kSureOfRenaming = 0.95F;

// A tensor without the numbers of its layer.
struct Renamed {
  std::string pattern, role, path;
  auto operator<=>(const Renamed&) const = default;
};
// The one of a layer, in one call.
using Numbered = std::tuple<Renamed, uint64_t, uint64_t, uint32_t>;

std::pair<Renamed, NameNumbers> renamed_of(const TensorRecord& record) {
  SplitName split = split_name(record.name, false);
  return {{std::move(split.pattern), std::string(record.role), std::string(record.path)}, split.numbers};
}

// How the one is a part of the other: Match::made_a, Match::made_b. Both null: they are one whole.
struct HowMade {
  std::shared_ptr<const MadeValue> a, b;
  bool is_part() const { return a != nullptr || b != nullptr; }
};

std::shared_ptr<const MadeValue> likewise(const std::shared_ptr<const MadeValue>& made, uint32_t tensor) {
  if (made == nullptr) return nullptr;
  MadeValue other = *made;
  other.parts.front().tensor = tensor;
  return std::make_shared<const MadeValue>(std::move(other));
}

bool is_transposed(const Match& match) {
  return match.made_b != nullptr && match.made_b->parts.front().steps.front().kind == ValueStep::Kind::kPermute;
}

}  // namespace

void match_by_renaming(const Side& a, const Side& b, const SharedValues& values, Pairing& pairing) {
  std::map<Renamed, std::map<Renamed, HowMade>> of_a, of_b;
  const auto learn = [&](const Match& match) {
    if (match.by != MatchedBy::kValues || is_transposed(match)) return;
    const auto [one, numbers_a] = renamed_of(a.tensor(match.a));
    const auto [other, numbers_b] = renamed_of(b.tensor(match.b));
    if (numbers_a.count == 0 || numbers_a != numbers_b) return;
    of_a[one].emplace(other, HowMade{match.made_a, match.made_b});
    of_b[other].emplace(one, HowMade{match.made_a, match.made_b});
  };
  for (size_t i = 0; i < pairing.count_a(); ++i)
    if (pairing.has_a(i)) learn(pairing.of_a(i));
  for (const Match& match : pairing.more()) learn(match);
  if (of_a.empty()) return;

  // As one whole, or as parts, and never both.
  const auto is_rule = [](const std::map<Renamed, HowMade>& others) {
    return others.size() == 1 || std::ranges::all_of(others, [](const auto& each) { return each.second.is_part(); });
  };
  const auto number = [](Renamed name, const NameNumbers& numbers, uint32_t call) {
    return Numbered{std::move(name), numbers.last, numbers.before_last, call};
  };
  std::map<Numbered, uint32_t> free_b;
  for (uint32_t i = 0; i < pairing.count_b(); ++i) {
    if (!pairing.is_free_b(i)) continue;
    const TensorRecord record = b.tensor(i);
    auto [name, numbers] = renamed_of(record);
    const auto found = of_b.find(name);
    if (found != of_b.end() && is_rule(found->second)) free_b.emplace(number(std::move(name), numbers, record.call), i);
  }
  for (uint32_t i = 0; i < pairing.count_a(); ++i) {
    if (!pairing.is_free_a(i)) continue;
    const TensorRecord record = a.tensor(i);
    const auto [name, numbers] = renamed_of(record);
    const auto rule = of_a.find(name);
    if (rule == of_a.end() || !is_rule(rule->second)) continue;
    for (const auto& [other, how] : rule->second) {
      const auto found = free_b.find(number(other, numbers, record.call));
      if (found == free_b.end() || values.of_a[i] != values.of_b[found->second]) continue;
      const TensorRecord record_b = b.tensor(found->second);
      if (how.is_part()) {
        Match match{.a = i, .b = found->second, .by = MatchedBy::kStructure, .confidence = kSureOfRenaming};
        match.made_a = likewise(how.a, i);
        match.made_b = likewise(how.b, found->second);
        const auto elements = [](const Side& side, const TensorRecord& whole, const MadeValue* made) -> uint64_t {
          if (made == nullptr) return element_count({.shape = whole.shape});
          const auto shape = shape_of_made(side, *made);
          return shape.ok() ? element_count({.shape = *shape}) : 0;
        };
        if (elements(a, record, match.made_a.get()) != elements(b, record_b, match.made_b.get())) continue;
        pairing.join_part(std::move(match));
      } else if (element_count({.shape = record.shape}) == element_count({.shape = record_b.shape})) {
        pairing.join(i, found->second, MatchedBy::kStructure, kSureOfRenaming);
      }
    }
  }
}

}  // namespace ttap
