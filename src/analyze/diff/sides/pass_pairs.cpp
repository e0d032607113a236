#include "analyze/diff/sides/pass_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "store/sources/module_facts.h"

namespace ttap {
namespace {

std::string place_of(const Rank& rank, uint32_t pass) { return fmt::format("rank {}, pass {}", rank.number, pass); }

// Of several processes that call themselves the same rank, those that ran a model come first: the others are the front
// end of a server, or workers that load data.
std::vector<const Rank*> ranks_of(const Run& run, const std::function<bool(uint32_t)>& wanted) {
  std::vector<const Rank*> ranks;
  for (const Rank& rank : run.ranks)
    if (wanted(rank.number) && !rank.passes.empty()) ranks.push_back(&rank);
  for (auto first = ranks.begin(); first != ranks.end();) {
    const auto end =
        std::find_if(first, ranks.end(), [&](const Rank* rank) { return rank->number != (*first)->number; });
    if (end - first > 1)
      std::stable_partition(first, end, [](const Rank* rank) { return !read_model_facts(rank->path).modules.empty(); });
    first = end;
  }
  return ranks;
}

// The processes of a run: the k-th of each rank number is one rank of the k-th group.
using Group = std::map<uint32_t, const Rank*>;
std::vector<Group> groups_of(const Run& run, const std::function<bool(uint32_t)>& wanted) {
  std::vector<Group> groups;
  std::map<uint32_t, size_t> seen;
  for (const Rank* rank : ranks_of(run, wanted)) {
    const size_t group = seen[rank->number]++;
    if (group == groups.size()) groups.emplace_back();
    groups[group][rank->number] = rank;
  }
  return groups;
}

std::vector<RankGroup> members_of(const std::vector<Group>& groups) {
  std::vector<RankGroup> found(groups.size());
  for (size_t g = 0; g < groups.size(); ++g)
    for (const auto& [number, rank] : groups[g]) found[g].push_back(rank);
  return found;
}

std::set<uint32_t> rank_numbers(const Run& run) {
  std::set<uint32_t> numbers;
  for (const Rank& rank : run.ranks) numbers.insert(rank.number);
  return numbers;
}

std::set<uint32_t> pass_numbers(const Run& run) {
  std::set<uint32_t> numbers;
  for (const Rank& rank : run.ranks)
    for (const PassFile& file : rank.passes) numbers.insert(file.number);
  return numbers;
}

Status check_chosen(const std::optional<NumberPairs>& chosen, std::string_view option, const std::set<uint32_t>& of_a,
                    const std::set<uint32_t>& of_b) {
  const auto missing = chosen ? chosen->missing(of_a, of_b) : std::nullopt;
  if (!missing) return {};
  return Error{.code = ErrorCode::kNotFound,
               .message = fmt::format("{}: {}", option, *missing),
               .hint = "`ttap ls RUN --passes` lists what there is"};
}

using Passes = std::map<uint32_t, std::vector<std::pair<const Rank*, const PassFile*>>>;
Passes passes_of(const Group& group) {
  Passes passes;
  for (const auto& [number, rank] : group)
    for (const PassFile& file : rank->passes) passes[file.number].emplace_back(rank, &file);
  return passes;
}

// The passes that every rank of a group has: a pass of which one rank's part is missing cannot be put together.
Passes whole_passes_of(const Group& group, std::string_view side, std::vector<std::string>& warnings) {
  Passes passes = passes_of(group);
  std::erase_if(passes, [&](const auto& entry) {
    if (entry.second.size() == group.size()) return false;
    for (const auto& member : group)
      if (std::ranges::none_of(entry.second, [&](const auto& part) { return part.first == member.second; }))
        warnings.push_back(
            fmt::format("rank {} of {} has no pass {}: the pass is not compared", member.first, side, entry.first));
    return true;
  });
  return passes;
}

// Pairs the passes of two ranks, or of two groups of ranks taken as wholes.
void pair_numbers(const Passes& a, const Passes& b, const std::optional<NumberPairs>& chosen, PassPairing& pairing) {
  const auto place = [](const auto& entry) {
    return entry.second.size() == 1 ? place_of(*entry.second.front().first, entry.first)
                                    : fmt::format("{} ranks, pass {}", entry.second.size(), entry.first);
  };
  const bool any_common = chosen || std::ranges::any_of(a, [&](const auto& entry) { return b.contains(entry.first); });
  if (!any_common && !a.empty() && !b.empty()) {
    if (a.size() > 1 || b.size() > 1)
      pairing.warnings.push_back(
          "no pass number is in both runs: passes are paired in their order; --pass A:B chooses");
    auto at_a = a.begin();
    auto at_b = b.begin();
    for (; at_a != a.end() && at_b != b.end(); ++at_a, ++at_b) pairing.pairs.push_back({at_a->second, at_b->second});
    for (; at_a != a.end(); ++at_a) pairing.only_a.push_back(place(*at_a));
    for (; at_b != b.end(); ++at_b) pairing.only_b.push_back(place(*at_b));
    return;
  }
  std::set<uint32_t> used;
  for (const auto& entry : a) {
    const auto partners = chosen ? chosen->partners_of(entry.first) : std::vector{entry.first};
    for (const uint32_t partner : partners) {
      const auto found = b.find(partner);
      if (found == b.end()) {
        pairing.only_a.push_back(place(entry));
        continue;
      }
      used.insert(found->first);
      pairing.pairs.push_back({entry.second, found->second});
    }
  }
  for (const auto& entry : b)
    if (!used.contains(entry.first) && (!chosen || chosen->wants_b(entry.first)))
      pairing.only_b.push_back(place(entry));
}

}  // namespace

Result<NumberPairs> NumberPairs::parse(std::string_view text, std::string_view option) {
  const auto bad = [&] {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("{} '{}' is not a list of numbers or pairs", option, text),
                 .hint = "write 3, or 3:0 for A's 3 with B's 0, or 0-4:10-14,7"};
  };
  const auto range = [](std::string_view part) -> std::optional<std::pair<uint32_t, uint32_t>> {
    const auto number = [](std::string_view digits) -> std::optional<uint32_t> {
      uint32_t value = 0;
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      return error == std::errc{} && end == digits.data() + digits.size() ? std::optional(value) : std::nullopt;
    };
    const size_t dash = part.find('-');
    const auto first = number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(part.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    return std::pair(*first, *last);
  };
  NumberPairs pairs;
  for (std::string_view rest = text;;) {
    const size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    const size_t colon = item.find(':');
    const auto a = range(item.substr(0, colon));
    const auto b = colon == std::string_view::npos ? a : range(item.substr(colon + 1));
    if (!a || !b || a->second - a->first != b->second - b->first) return bad();
    pairs.ranges_.push_back({a->first, a->second, b->first});
    if (comma == std::string_view::npos) return pairs;
    rest.remove_prefix(comma + 1);
  }
}

std::vector<uint32_t> NumberPairs::partners_of(uint32_t a) const {
  std::vector<uint32_t> partners;
  for (const Range& range : ranges_)
    if (range.first_a <= a && a <= range.last_a) partners.push_back(range.first_b + (a - range.first_a));
  return partners;
}

std::optional<std::string> NumberPairs::missing(const std::set<uint32_t>& of_a, const std::set<uint32_t>& of_b) const {
  for (const Range& range : ranges_)
    for (uint64_t a = range.first_a; a <= range.last_a; ++a) {
      const auto b = static_cast<uint32_t>(range.first_b + (a - range.first_a));
      if (!of_a.contains(static_cast<uint32_t>(a))) return fmt::format("A has no {}", a);
      if (!of_b.contains(b)) return fmt::format("B has no {}", b);
    }
  return std::nullopt;
}

bool NumberPairs::wants_b(uint32_t b) const {
  return std::ranges::any_of(ranges_,
                             [&](const Range& r) { return r.first_b <= b && b - r.first_b <= r.last_a - r.first_a; });
}

Result<PassPairing> pair_passes(const Run& a, const Run& b, const std::string& passes, const std::string& ranks,
                                bool join) {
  std::optional<NumberPairs> chosen_passes, chosen_ranks;
  if (!passes.empty()) {
    TTAP_ASSIGN(chosen_passes, NumberPairs::parse(passes, "--pass"));
  }
  if (!ranks.empty()) {
    TTAP_ASSIGN(chosen_ranks, NumberPairs::parse(ranks, "--rank"));
  }
  TTAP_TRY(check_chosen(chosen_passes, "--pass", pass_numbers(a), pass_numbers(b)));
  TTAP_TRY(check_chosen(chosen_ranks, "--rank", rank_numbers(a), rank_numbers(b)));
  const auto groups_a = groups_of(a, [&](uint32_t n) { return !chosen_ranks || chosen_ranks->wants_a(n); });
  const auto groups_b = groups_of(b, [&](uint32_t n) { return !chosen_ranks || chosen_ranks->wants_b(n); });

  PassPairing pairing{.groups_a = members_of(groups_a), .groups_b = members_of(groups_b)};
  for (size_t g = 0; g < std::min(groups_a.size(), groups_b.size()); ++g) {
    const Group &group_a = groups_a[g], &group_b = groups_b[g];
    const bool one_each = group_a.size() == 1 && group_b.size() == 1;
    if (!one_each && (join || (group_a.size() != group_b.size() && !chosen_ranks))) {
      pair_numbers(whole_passes_of(group_a, "A", pairing.warnings), whole_passes_of(group_b, "B", pairing.warnings),
                   chosen_passes, pairing);
      continue;
    }
    std::set<uint32_t> used;
    const size_t before = pairing.pairs.size();
    for (const auto& [number, rank] : group_a) {
      // Two runs of one rank each are the two to compare, whatever their numbers.
      const uint32_t partner = chosen_ranks ? chosen_ranks->partners_of(number).front()
                               : one_each   ? group_b.begin()->first
                                            : number;
      const auto found = group_b.find(partner);
      if (found == group_b.end()) {
        pairing.only_a.push_back(fmt::format("rank {}", number));
        continue;
      }
      used.insert(partner);
      pair_numbers(passes_of({{number, rank}}), passes_of({*found}), chosen_passes, pairing);
    }
    // What ranks exchange goes from one to the other within a pass, so all of them come before the next one.
    std::ranges::stable_sort(pairing.pairs.begin() + static_cast<ptrdiff_t>(before), pairing.pairs.end(), {},
                             [](const PassPair& pair) { return pair.a.front().second->number; });
    for (const auto& [number, rank] : group_b)
      if (!used.contains(number)) pairing.only_b.push_back(fmt::format("rank {}", number));
  }
  const auto left = [](const std::vector<Group>& groups, size_t from, std::vector<std::string>& only) {
    for (size_t g = from; g < groups.size(); ++g)
      for (const auto& [number, rank] : groups[g]) only.push_back(fmt::format("rank {} (pid {})", number, rank->pid));
  };
  left(groups_a, groups_b.size(), pairing.only_a);
  left(groups_b, groups_a.size(), pairing.only_b);
  if (pairing.pairs.empty()) {
    const auto numbers = [](const Run& run) {
      const std::set<uint32_t> all = pass_numbers(run);
      return all.empty() ? std::string("no pass") : fmt::format("passes {} to {}", *all.begin(), *all.rbegin());
    };
    return Error{
        .code = ErrorCode::kNotFound,
        .message = fmt::format("there are no two passes to compare: A has {}, B has {}", numbers(a), numbers(b)),
        .hint = "--pass 3:0 compares A's pass 3 with B's pass 0, --rank likewise; `ttap ls RUN` lists both"};
  }
  return pairing;
}

}  // namespace ttap
