#include "analyze/diff/match/names/renaming.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "analyze/diff/match/names/name_likeness.h"

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

// Match::columns.
using Columns = std::shared_ptr<const std::vector<uint32_t>>;

}  // namespace

void match_by_renaming(const Side& a, const Side& b, const SharedValues& values, Pairing& pairing) {
  std::map<Renamed, std::map<Renamed, Columns>> of_a, of_b;
  const auto learn = [&](const Match& match) {
    if (match.by != MatchedBy::kValues || match.transposed) return;
    const auto [one, numbers_a] = renamed_of(a.tensor(match.a));
    const auto [other, numbers_b] = renamed_of(b.tensor(match.b));
    if (numbers_a.count == 0 || numbers_a != numbers_b) return;
    of_a[one].emplace(other, match.columns);
    of_b[other].emplace(one, match.columns);
  };
  for (size_t i = 0; i < pairing.count_a(); ++i)
    if (pairing.has_a(i)) learn(pairing.of_a(i));
  for (const Match& match : pairing.more()) learn(match);
  if (of_a.empty()) return;

  // As one whole, or as parts, and never both.
  const auto is_rule = [](const std::map<Renamed, Columns>& others) {
    return others.size() == 1 || std::ranges::all_of(others, [](const auto& each) { return each.second != nullptr; });
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
    for (const auto& [other, columns] : rule->second) {
      const auto found = free_b.find(number(other, numbers, record.call));
      if (found == free_b.end() || values.of_a[i] != values.of_b[found->second]) continue;
      const TensorRecord record_b = b.tensor(found->second);
      if (columns != nullptr) {
        const auto width = [](const TensorRecord& each) { return each.shape.empty() ? 0 : each.shape.back(); };
        if (std::min(width(record), width(record_b)) != static_cast<int64_t>(columns->size())) continue;
        pairing.join_part({i, found->second, MatchedBy::kStructure, kSureOfRenaming, false, false, columns});
      } else if (element_count({.shape = record.shape}) == element_count({.shape = record_b.shape})) {
        pairing.join(i, found->second, MatchedBy::kStructure, kSureOfRenaming);
      }
    }
  }
}

}  // namespace ttap
