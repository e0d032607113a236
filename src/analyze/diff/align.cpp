#include "analyze/diff/align.h"

#include <algorithm>
#include <map>
#include <set>

#include "analyze/diff/match/declared_match.h"
#include "analyze/diff/match/names/module_match.h"
#include "analyze/diff/match/names/renaming.h"
#include "analyze/diff/match/ops/op_align.h"
#include "analyze/diff/match/other_names.h"
#include "analyze/diff/match/pairing.h"
#include "analyze/diff/match/quant_parts.h"
#include "analyze/diff/match/values/value_match.h"

namespace ttap {
namespace {

// The last of the tensors of A that the match is about.
uint32_t last_of_a(const Match& match) {
  uint32_t last = match.a;
  if (match.made_a != nullptr)
    for (const MadeValue::Part& part : match.made_a->parts) last = std::max(last, part.tensor);
  return last;
}

// A's tensors in order, and what only B has after the tensor of A that B's tensor before it belongs to.
std::vector<Match> in_order(const Pairing& pairing) {
  struct Extra {
    size_t after;  // how many tensors of A come before it
    uint32_t b;
  };
  std::vector<Extra> extras;
  size_t after = 0;
  for (uint32_t b = 0; b < pairing.count_b(); ++b) {
    if (pairing.has_b(b)) {
      after = pairing.a_of(b) + size_t{1};
    } else {
      extras.push_back({after, b});
    }
  }
  std::ranges::stable_sort(extras, {}, &Extra::after);

  std::multimap<uint32_t, const Match*> more;
  for (const Match& match : pairing.more()) more.emplace(match.a, &match);
  std::multimap<uint32_t, Match> waiting;  // by the tensor of A that each comes after
  std::vector<Match> matches;
  matches.reserve(pairing.count_a() + extras.size());
  auto extra = extras.begin();
  const auto place = [&](const Match& match) {
    const uint32_t last = last_of_a(match);
    last > match.a ? void(waiting.emplace(last, match)) : matches.push_back(match);
  };
  for (size_t a = 0; a <= pairing.count_a(); ++a) {
    for (; extra != extras.end() && extra->after == a; ++extra)
      matches.push_back({.b = extra->b,
                         .trivial = pairing.is_trivial_b(extra->b),
                         .dropped = pairing.dropped_b(extra->b) != 0,
                         .rule = pairing.dropped_b(extra->b)});
    if (a >= pairing.count_a()) break;
    const Match& match = pairing.of_a(a);
    // What is made of several values is there when the last of them is.
    place(match);
    for (auto [next, end] = more.equal_range(static_cast<uint32_t>(a)); next != end; ++next) place(*next->second);
    for (auto [next, end] = waiting.equal_range(static_cast<uint32_t>(a)); next != end; ++next)
      matches.push_back(next->second);
  }
  return matches;
}

// What is compared as one with another value, and has no partner of its own, is not left over.
void erase_combined(std::vector<Match>& matches) {
  std::set<uint32_t> of_a, of_b;
  for (const Match& match : matches)
    for (const auto& [made, of] : {std::pair(match.made_a.get(), &of_a), std::pair(match.made_b.get(), &of_b)})
      if (made != nullptr)
        for (const MadeValue::Part& part : made->parts) of->insert(part.tensor);
  if (of_a.empty() && of_b.empty()) return;
  std::erase_if(matches, [&](const Match& match) {
    return (match.b == kNoTensor && of_a.contains(match.a)) || (match.a == kNoTensor && of_b.contains(match.b));
  });
}

}  // namespace

std::vector<Match> align(const SideOps& ops_a, const SideOps& ops_b, const AlignOptions& options) {
  const Side &a = ops_a.side(), &b = ops_b.side();
  Pairing pairing(a.tensor_count(), b.tensor_count());
  const QuantParts parts_a(a), parts_b(b);
  close_parts(a, parts_a, b, parts_b, pairing);
  // What a rule renames is what somebody asked for; the rest goes by its key.
  if (options.map != nullptr) match_by_map(a, b, *options.map, pairing);
  match_declared(a, b, pairing);
  match_ops(ops_a, ops_b, options.nearness, pairing);
  match_by_key(a, b, pairing);
  match_first_results(a, b, pairing);
  match_modules_with_ops(a, b, pairing);
  if (options.structure) {
    close_other_names(a, b, pairing);
    const SharedValues values = match_by_value(a, b, pairing);
    match_by_renaming(a, b, values, pairing);
    match_by_structure(a, b, values, pairing);
  }
  match_parts(a, parts_a, b, parts_b, pairing);
  std::vector<Match> matches = in_order(pairing);
  for (Match& match : matches)
    match.part =
        (match.b == kNoTensor && parts_a.is_part(match.a)) || (match.a == kNoTensor && parts_b.is_part(match.b));
  erase_combined(matches);
  erase_other_names(a, b, matches);
  // Only now: what the filter hides still helps to tell the rest apart, and its counterpart is not left over.
  if (options.wanted != nullptr)
    std::erase_if(matches, [&](const Match& match) {
      const TensorRecord record = match.a != kNoTensor ? a.tensor(match.a) : b.tensor(match.b);
      return !(*options.wanted)(to_string(record.key()));
    });
  return matches;
}

}  // namespace ttap
