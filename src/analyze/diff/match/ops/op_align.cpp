#include "analyze/diff/match/ops/op_align.h"

#include <algorithm>

#include "analyze/diff/match/ops/node_match.h"
#include "analyze/diff/match/ops/op_pairing.h"
#include "analyze/diff/match/ops/op_sequence.h"

namespace ttap {
namespace {

constexpr int kMostRounds = 4;
constexpr double kNearlySame = 1e-3;
constexpr double kNear = 0.1;  // results of 16 bits are off by hundredths

// Whatever the order. What is found helps to find what it was made into.
void match_by_evidence(OpPairing& ops) {
  for (int round = 0; round < kMostRounds; ++round) {
    const OpKeys keys_a = ops.keys_a(), keys_b = ops.keys_b();
    bool any = ops.join_equal(keys_a.dataflow, keys_b.dataflow, MatchedBy::kOp);
    any |= ops.join_equal(keys_a.made, keys_b.made, MatchedBy::kOp);
    any |= ops.join_equal(keys_a.given, keys_b.given, MatchedBy::kOp);
    any |= ops.join_equal(keys_a.outside, keys_b.outside, MatchedBy::kOp);
    any |= ops.join_equal(keys_a.weights, keys_b.weights, MatchedBy::kOp, true);
    // Before arguments, of which a sum may have others in the same places.
    if (ops.nearness) any |= ops.join_near(kNearlySame);
    if (!any || ops.is_complete()) return;
    match_arguments(ops);
  }
}

void match_by_order(OpPairing& ops) {
  // Compiled code has them in another order. Those that are found leave fewer to take for the others.
  for (int round = 0; ops.nearness && round < kMostRounds && ops.join_near(kNear); ++round) match_arguments(ops);
  if (ops.is_done()) return;
  const OpKeys keys_a = ops.keys_a(), keys_b = ops.keys_b();
  const auto symbols_of = [](const OpList& list, const OpKeys& keys, std::span<const uint32_t> wanted) {
    std::vector<OpSymbol> symbols;
    symbols.reserve(wanted.size());
    for (const uint32_t i : wanted) {
      const Op& op = list.ops()[i];
      symbols.push_back({op.name, op.overload, op.shape, op.dtype, keys.made[i], keys.given[i]});
    }
    return symbols;
  };
  std::vector<std::pair<uint32_t, uint32_t>> found;
  ops.for_each_gap([&](const OpPairing::Gap& gap) {
    std::vector<uint32_t> free_a, free_b;
    for (const uint32_t op : gap.a)
      if (!ops.has_a(op)) free_a.push_back(op);
    for (const uint32_t op : gap.b)
      if (!ops.has_b(op)) free_b.push_back(op);
    for (const auto& [x, y] : align_sequences(symbols_of(ops.a, keys_a, free_a), symbols_of(ops.b, keys_b, free_b)))
      found.emplace_back(free_a[x], free_b[y]);
  });
  // From the first to the last: what an op was given was matched before it.
  std::ranges::sort(found);
  for (const auto& [x, y] : found)
    if (ops.can_be_one(x, y)) ops.join(x, y, MatchedBy::kOp);
}

}  // namespace

void match_ops(const SideOps& a, const SideOps& b, bool nearness, Pairing& pairing) {
  if (!has_ops(a.side()) || !has_ops(b.side())) return;
  OpPairing ops(a, b, nearness, pairing);
  match_nodes_of_equal_graphs(ops);
  match_by_evidence(ops);
  match_gradients(ops);
  match_by_order(ops);
  match_values(ops);
  const auto is_trivial = [](const Side& side, const OpList& list, uint32_t tensor) {
    const Op& op = list.ops()[list.op_of(tensor)];
    return op.copies || op.undefined ||
           (list.position_of(tensor) == kNoTensor && is_for_results(side.tensor(tensor).path));
  };
  for (uint32_t i = 0; i < pairing.count_a(); ++i)
    if (ops.a.op_of(i) != kNoOp)
      pairing.close_a(i, ops.is_shared_a(i) || ops.is_weight_a(i) || is_trivial(a.side(), ops.a, i));
  for (uint32_t i = 0; i < pairing.count_b(); ++i)
    if (ops.b.op_of(i) != kNoOp)
      pairing.close_b(i, ops.is_shared_b(i) || ops.is_weight_b(i) || is_trivial(b.side(), ops.b, i));
}

}  // namespace ttap
