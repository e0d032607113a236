#include "analyze/diff/match/names/module_match.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "analyze/diff/match/ops/op_list.h"
#include "analyze/ops/event_op.h"

namespace ttap {
namespace {

constexpr int kDeepestModule = 256;

// Which call of which module; the first call has number 1.
using Module = std::pair<std::string, uint32_t>;

// The values that ops made inside each call of a module, in their order.
std::map<Module, std::vector<uint32_t>> values_by_module(const Side& side) {
  std::map<Module, std::vector<uint32_t>> found;
  for (uint32_t i = 0; i < side.tensor_count(); ++i) {
    const TensorRecord record = side.tensor(i);
    if (record.role != "out" || record.event >= side.event_count()) continue;
    const EventRecord event = side.event(record.event);
    if (!is_op(event) || is_placeholder(event)) continue;
    const EventOp op = op_of_event(side, record.event);
    if (op.backward) continue;
    bool any = false;
    uint32_t at = event.parent;
    for (int depth = 0; at < side.event_count() && depth < kDeepestModule; ++depth) {
      const EventRecord around = side.event(at);
      if (around.kind == "module") {
        found[{std::string(around.name), around.call}].push_back(i);
        any = true;
      }
      if (around.parent >= at) break;
      at = around.parent;
    }
    // Without events of modules the name says where it ran, and there is no telling calls apart.
    std::string_view scope = any ? std::string_view() : std::string_view(op.scope);
    while (!scope.empty()) {
      found[{std::string(scope), 1}].push_back(i);
      const size_t dot = scope.rfind('.');
      scope = dot == std::string_view::npos ? std::string_view() : scope.substr(0, dot);
    }
  }
  return found;
}

bool same_bits(const TensorRecord& a, const TensorRecord& b) {
  return a.has_fingerprint && b.has_fingerprint && a.fingerprint.hash == b.fingerprint.hash;
}

// Whether an event is inside a call of a module, as values_by_module() counts it.
bool is_inside(const Side& side, uint32_t event, const Module& module) {
  bool any = false;
  uint32_t at = side.event(event).parent;
  for (int depth = 0; at < side.event_count() && depth < kDeepestModule; ++depth) {
    const EventRecord around = side.event(at);
    if (around.kind == "module" && around.name == module.first && around.call == module.second) return true;
    any = any || around.kind == "module";
    if (around.parent >= at) break;
    at = around.parent;
  }
  if (any) return false;
  const std::string scope = op_of_event(side.event(event)).scope;
  return scope.starts_with(module.first) && (scope.size() == module.first.size() || scope[module.first.size()] == '.');
}

// Per record the events that are given it.
std::vector<std::vector<uint32_t>> users_of(const Side& side) {
  std::vector<std::vector<uint32_t>> users(side.tensor_count());
  for (uint32_t event = 0; event < side.event_count(); ++event) {
    const uint32_t uses = side.event(event).use_count;
    for (uint32_t i = 0; i < uses; ++i)
      if (const UseRecord use = side.use(event, i); use.role == "in" && use.record < users.size())
        users[use.record].push_back(event);
  }
  return users;
}

// The module's values by the ops of the other side. What a module only hands on from one inside it is compared there,
// and settled here.
template <class IsFreeModule, class IsFreeOp, class Join, class Settle>
void match(const Side& modules, const Side& ops, IsFreeModule&& is_free_module, IsFreeOp&& is_free_op, Join&& join,
           Settle&& settle) {
  const auto values = values_by_module(ops);
  if (values.empty()) return;
  const auto users = users_of(ops);
  // What is used up inside a module is not what it returned.
  const auto leaves = [&](uint32_t value, const Module& module) {
    return users[value].empty() ||
           std::ranges::any_of(users[value], [&](uint32_t event) { return !is_inside(ops, event, module); });
  };
  // Inner modules return before outer ones, so theirs come first.
  std::vector<bool> taken(ops.tensor_count());
  for (uint32_t i = 0; i < modules.tensor_count(); ++i) {
    const TensorRecord record = modules.tensor(i);
    if (record.role != "out" || !is_free_module(i)) continue;
    const auto inside = values.find({std::string(record.name), record.call});
    if (inside == values.end()) continue;
    uint32_t best = kNoTensor;
    for (auto at = inside->second.rbegin(); at != inside->second.rend(); ++at) {
      const TensorRecord made = ops.tensor(*at);
      if (!(taken[*at] || is_free_op(*at)) || !std::ranges::equal(made.shape, record.shape)) continue;
      if (!leaves(*at, inside->first)) continue;
      if (same_bits(made, record)) {
        best = *at;
        break;
      }
      if (best == kNoTensor && made.dtype == record.dtype) best = *at;
    }
    if (best == kNoTensor) continue;
    if (taken[best]) {
      settle(i);
      continue;
    }
    taken[best] = true;
    join(i, best);
  }
}

bool is_of_module(const Side& side, const TensorRecord& record) {
  return record.event < side.event_count() && side.event(record.event).kind == "module";
}

bool has_values_of_modules(const Side& side) {
  for (size_t i = 0; i < side.tensor_count(); ++i)
    if (is_of_module(side, side.tensor(i))) return true;
  return false;
}

template <class IsFree>
std::vector<uint32_t> free_values(const Side& side, IsFree&& is_free) {
  std::vector<uint32_t> values;
  for (uint32_t i = 0; i < side.tensor_count(); ++i)
    if (is_free(i) && is_of_module(side, side.tensor(i))) values.push_back(i);
  return values;
}

// The value of a module that is that of one of its own nodes is compared there.
template <class Settle>
void settle_modules_of_graphs(const Side& side, const std::vector<uint32_t>& values, Settle&& settle) {
  std::set<std::pair<uint64_t, uint64_t>> made;
  for (size_t i = 0; !values.empty() && i < side.tensor_count(); ++i)
    if (const TensorRecord record = side.tensor(i); record.has_fingerprint && !is_of_module(side, record))
      made.emplace(record.fingerprint.hash.high, record.fingerprint.hash.low);
  for (const uint32_t value : values)
    if (const TensorRecord record = side.tensor(value);
        record.has_fingerprint && made.contains({record.fingerprint.hash.high, record.fingerprint.hash.low}))
      settle(value);
}

}  // namespace

void match_modules_with_ops(const Side& a, const Side& b, Pairing& pairing) {
  const bool ops_a = has_ops(a), ops_b = has_ops(b);
  if (ops_a && ops_b) {
    if (!has_values_of_modules(b))
      settle_modules_of_graphs(a, free_values(a, [&](uint32_t i) { return pairing.is_free_a(i); }),
                               [&](uint32_t i) { pairing.close_a(i, true); });
    if (!has_values_of_modules(a))
      settle_modules_of_graphs(b, free_values(b, [&](uint32_t i) { return pairing.is_free_b(i); }),
                               [&](uint32_t i) { pairing.close_b(i, true); });
  }
  if (ops_a == ops_b || !has_values_of_modules(ops_a ? b : a)) return;
  const auto free_a = [&](uint32_t i) { return pairing.is_free_a(i); };
  const auto free_b = [&](uint32_t i) { return pairing.is_free_b(i); };
  if (ops_b) {
    match(
        a, b, free_a, free_b, [&](uint32_t x, uint32_t y) { pairing.join(x, y, MatchedBy::kPlace); },
        [&](uint32_t x) { pairing.close_a(x, true); });
  } else {
    match(
        b, a, free_b, free_a, [&](uint32_t x, uint32_t y) { pairing.join(y, x, MatchedBy::kPlace); },
        [&](uint32_t x) { pairing.close_b(x, true); });
  }
  const auto is_of_op = [](const Side& side, uint32_t tensor) {
    const uint32_t event = side.tensor(tensor).event;
    return event < side.event_count() && is_op(side.event(event));
  };
  for (uint32_t i = 0; ops_a && i < pairing.count_a(); ++i)
    if (is_of_op(a, i)) pairing.close_a(i, true);
  for (uint32_t i = 0; ops_b && i < pairing.count_b(); ++i)
    if (is_of_op(b, i)) pairing.close_b(i, true);
}

}  // namespace ttap
