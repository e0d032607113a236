#include "analyze/diff/match/ops/gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "analyze/diff/match/ops/op_list.h"
#include "analyze/diff/match/ops/value_likeness.h"
#include "core/json.h"

namespace ttap {
namespace {

constexpr std::string_view kNode = "torch::autograd::AccumulateGrad";

// A parameter's name; of a tensor without one, the shape of its gradient.
using Leaf = std::pair<std::string, std::vector<int64_t>>;
using Gradients = std::map<Leaf, std::vector<uint32_t>>;  // records, in order

// What the call has made; kNoTensor when that was not recorded.
uint32_t result_of(const Side& side, size_t event) {
  for (uint32_t k = 0; k < side.event(event).use_count; ++k)
    if (const UseRecord use = side.use(event, k); use.role == "out" && use.record < side.tensor_count())
      return use.record;
  return kNoTensor;
}

Gradients gradients_of(const Side& side) {
  Gradients found;
  for (size_t i = 0; i < side.event_count(); ++i) {
    const std::string_view text = side.event(i).notes;
    if (text.find(kNode) == std::string_view::npos) continue;
    const auto notes = parse_sorted_json(text);
    if (!notes.is_object() || notes.value("node", SortedJson()) != kNode) continue;
    const uint32_t record = result_of(side, i);
    if (record == kNoTensor) continue;
    const auto name = notes.find("gradient");
    const std::span<const int64_t> shape = side.tensor(record).shape;
    found[name != notes.end() && name->is_string() ? Leaf{name->get<std::string>(), {}}
                                                   : Leaf{"", {shape.begin(), shape.end()}}]
        .push_back(record);
  }
  return found;
}

constexpr size_t kMostCopies = 64;  // that are followed

// The records of one side that hold the same as a tensor: what it is a copy or view of, and what has the same bits.
class SameValues {
 public:
  explicit SameValues(const OpList& list) : list_(list) {
    for (uint32_t i = 0; i < list_.tensor_count(); ++i)
      if (list_.bits(i) != 0 && !list_.is_plain(i)) by_bits_[list_.bits(i)].push_back(i);
  }

  std::vector<uint32_t> of(uint32_t tensor) const {
    std::vector<uint32_t> found = {tensor};
    for (size_t next = 0; next < found.size() && next < kMostCopies; ++next) {
      const auto add = [&](uint32_t other) {
        if (std::ranges::find(found, other) == found.end()) found.push_back(other);
      };
      if (const auto same = by_bits_.find(list_.bits(found[next])); same != by_bits_.end())
        std::ranges::for_each(same->second, add);
      const uint32_t op = list_.op_of(found[next]);
      if (op == kNoOp || list_.position_of(found[next]) == kNoTensor || !list_.ops()[op].copies) continue;
      const std::span<const uint32_t> inputs = list_.inputs(list_.ops()[op]);
      if (!inputs.empty() && inputs.front() != kNoTensor) add(inputs.front());
    }
    return found;
  }

 private:
  const OpList& list_;
  std::map<uint64_t, std::vector<uint32_t>> by_bits_;
};

bool may_be_same(const TensorRecord& a, const TensorRecord& b) {
  if (!a.has_fingerprint || !b.has_fingerprint) return true;
  return a.fingerprint.hash == b.fingerprint.hash || is_near(a, b);
}

}  // namespace

std::vector<GradientPair> find_gradients(const Side& a, const Side& b) {
  std::vector<GradientPair> pairs;
  const Gradients of_a = gradients_of(a);
  if (of_a.empty()) return pairs;
  const Gradients of_b = gradients_of(b);
  for (const auto& [leaf, records] : of_a) {
    const auto found = of_b.find(leaf);
    if (found == of_b.end() || found->second.size() != records.size()) continue;
    if (leaf.first.empty() && records.size() > 1) continue;
    for (size_t i = 0; i < records.size(); ++i) pairs.push_back({leaf.first, records[i], found->second[i]});
  }
  return pairs;
}

void find_wrong_gradients(const SideOps& ops_a, const SideOps& ops_b, std::span<TensorDiff> tensors) {
  if (std::ranges::any_of(tensors, [](const TensorDiff& tensor) { return differs(tensor); })) return;
  const Side &a = ops_a.side(), &b = ops_b.side();
  std::vector<GradientPair> pairs = find_gradients(a, b);
  std::erase_if(pairs, [&](const GradientPair& pair) { return may_be_same(a.tensor(pair.a), b.tensor(pair.b)); });
  if (pairs.empty()) return;
  const std::vector<uint32_t> at_a = positions_of(tensors, &Match::a, a.tensor_count());
  const std::vector<uint32_t> at_b = positions_of(tensors, &Match::b, b.tensor_count());
  const SameValues same_a(ops_a.list()), same_b(ops_b.list());
  for (const GradientPair& pair : pairs) {
    // What was held against each other has its verdict.
    const std::vector<uint32_t> values_b = same_b.of(pair.b);
    const bool compared = std::ranges::any_of(same_a.of(pair.a), [&](uint32_t value) {
      return at_a[value] != kNoTensor && std::ranges::find(values_b, tensors[at_a[value]].match.b) != values_b.end();
    });
    const bool only_in_b = at_b[pair.b] != kNoTensor && tensors[at_b[pair.b]].match.a == kNoTensor;
    const uint32_t at = only_in_b || at_a[pair.a] == kNoTensor ? at_b[pair.b] : at_a[pair.a];
    if (compared || at == kNoTensor) continue;
    tensors[at].cause = Cause::kIntroduced;
    tensors[at].is_wrong = true;
    tensors[at].reason = fmt::format("the gradient of {} is not the same: {} in A, {} in B",
                                     pair.parameter.empty() ? "a tensor" : pair.parameter,
                                     to_string(a.tensor(pair.a).key()), to_string(b.tensor(pair.b).key()));
  }
}

}  // namespace ttap
