#include "analyze/diff/match/ops/op_pairing.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "analyze/diff/match/longest_ascent.h"
#include "analyze/diff/match/nearest.h"
#include "analyze/diff/match/ops/value_likeness.h"
#include "core/mix64.h"

namespace ttap {
namespace {

constexpr size_t kMostInGroup = 64;      // ops with the same key that are held against each other
constexpr uint64_t kFewest = 16;         // elements by which a value is known
constexpr double kMuchNearer = 16;       // times, than any other
constexpr double kLeastDistance = 1e-8;  // what is nearer is as near as this

struct Keyed {
  uint64_t key;
  uint32_t index;
};

// Whatever the memory held.
bool is_undefined(const Side& side, const OpList& list, uint32_t tensor) {
  if (list.bits(tensor) != 0) return false;
  if (list.position_of(tensor) != kNoTensor) return list.ops()[list.op_of(tensor)].undefined;
  return is_for_results(side.tensor(tensor).path);
}

bool is_telling(const Nearest& nearest, double most) {
  return nearest.distance <= most && nearest.next > kMuchNearer * std::max(nearest.distance, kLeastDistance);
}

bool by_key(const Keyed& x, const Keyed& y) { return x.key != y.key ? x.key < y.key : x.index < y.index; }

// Calls visit(those of A, those of B) for every key that both have.
template <class Visit>
void for_each_shared(std::vector<Keyed>& a, std::vector<Keyed>& b, Visit&& visit) {
  std::ranges::sort(a, by_key);
  std::ranges::sort(b, by_key);
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (a[i].key != b[j].key) {
      ++(a[i].key < b[j].key ? i : j);
      continue;
    }
    size_t i_end = i, j_end = j;
    while (i_end < a.size() && a[i_end].key == a[i].key) ++i_end;
    while (j_end < b.size() && b[j_end].key == b[j].key) ++j_end;
    visit(std::span(a).subspan(i, i_end - i), std::span(b).subspan(j, j_end - j));
    i = i_end;
    j = j_end;
  }
}

}  // namespace

OpPairing::OpPairing(const SideOps& one, const SideOps& other, bool by_nearness, Pairing& into)
    : listed_a(one),
      listed_b(other),
      side_a(one.side()),
      side_b(other.side()),
      a(one.list()),
      b(other.list()),
      streams(find_streams(side_a, a, side_b, b)),
      nearness(by_nearness),
      pairing(into),
      of_a_(a.ops().size(), kNoOp),
      of_b_(b.ops().size(), kNoOp),
      free_a_(of_a_.size()),
      free_b_(of_b_.size()),
      shared_a_(side_a.tensor_count()),
      shared_b_(side_b.tensor_count()),
      weighs_a_(side_a.tensor_count()),
      weighs_b_(side_b.tensor_count()),
      stream_a_(OpStreams::numbers_of(streams.a, of_a_.size())),
      stream_b_(OpStreams::numbers_of(streams.b, of_b_.size())) {
  find_shared();
}

void OpPairing::find_shared() {
  const auto bits_of = [](const OpList& list, size_t count) {
    std::vector<Keyed> bits;
    for (uint32_t i = 0; i < count; ++i)
      if (list.bits(i) != 0) bits.push_back({list.bits(i), i});
    return bits;
  };
  std::vector<Keyed> bits_a = bits_of(a, shared_a_.size()), bits_b = bits_of(b, shared_b_.size());
  for_each_shared(bits_a, bits_b, [&](std::span<const Keyed> in_a, std::span<const Keyed> in_b) {
    for (const Keyed& each : in_a) shared_a_[each.index] = true;
    for (const Keyed& each : in_b) shared_b_[each.index] = true;
  });
  const auto given = [](const OpList& list, size_t count) {
    std::vector<Keyed> contents;
    for (uint32_t i = 0; i < count; ++i)
      if (list.op_of(i) != kNoOp && list.position_of(i) == kNoTensor && list.content(i) != 0)
        contents.push_back({list.content(i), i});
    return contents;
  };
  std::vector<Keyed> given_a = given(a, shared_a_.size()), given_b = given(b, shared_b_.size());
  for_each_shared(given_a, given_b, [&](std::span<const Keyed> in_a, std::span<const Keyed> in_b) {
    for (const Keyed& each : in_a) weighs_a_[each.index] = true;
    for (const Keyed& each : in_b) weighs_b_[each.index] = true;
  });
}

bool OpPairing::may_replace(const Op& op_a, const Op& op_b) const {
  return op_a.name == op_b.name || op_a.kernel || op_b.kernel || op_a.constant == op_b.constant;
}

void OpPairing::join_values(uint32_t tensor_a, uint32_t tensor_b, MatchedBy by) {
  if (by == MatchedBy::kPlace && a.position_of(tensor_a) != kNoTensor && b.position_of(tensor_b) != kNoTensor &&
      !may_replace(a.ops()[a.op_of(tensor_a)], b.ops()[b.op_of(tensor_b)]))
    return;
  if (is_undefined(side_a, a, tensor_a) || is_undefined(side_b, b, tensor_b)) return;
  if (!pairing.has_a(tensor_a) && !pairing.has_b(tensor_b)) pairing.join(tensor_a, tensor_b, by);
}

void OpPairing::join(uint32_t op_a, uint32_t op_b, MatchedBy by) {
  if (!may_replace(a.ops()[op_a], b.ops()[op_b])) return;
  of_a_[op_a] = op_b;
  of_b_[op_b] = op_a;
  --free_a_;
  --free_b_;
  if (by == MatchedBy::kOp && a.ops()[op_a].name != b.ops()[op_b].name) by = MatchedBy::kPlace;
  const std::span<const uint32_t> values_a = a.values(a.ops()[op_a]), values_b = b.values(b.ops()[op_b]);
  if (values_a.size() == 1 && values_b.size() == 1) return join_values(values_a.front(), values_b.front(), by);
  for (const uint32_t x : values_a) {
    const TensorRecord record = side_a.tensor(x);
    for (const uint32_t y : values_b) {
      const TensorRecord other = side_b.tensor(y);
      if (record.role == other.role && record.path == other.path) join_values(x, y, by);
    }
  }
  // An argument written in place on one side may be a result on the other.
  size_t next = 0;
  for (const uint32_t x : values_a) {
    if (pairing.has_a(x)) continue;
    while (next < values_b.size() && pairing.has_b(values_b[next])) ++next;
    if (next < values_b.size() && a.shape(x) == b.shape(values_b[next])) join_values(x, values_b[next++], by);
  }
}

bool OpPairing::can_be_one(uint32_t op_a, uint32_t op_b) const {
  const Op &one = a.ops()[op_a], &other = b.ops()[op_b];
  // `eq.Scalar` of a row and `eq.Tensor` of a mask have no more than the name in common.
  if (one.overload != other.overload && one.shape != other.shape && !one.copies && !other.copies) return false;
  const std::span<const uint32_t> inputs_a = a.inputs(a.ops()[op_a]), inputs_b = b.inputs(b.ops()[op_b]);
  bool conflict_a = false, conflict_b = false;
  for (const uint32_t x : inputs_a) {
    if (x == kNoTensor) continue;
    for (const uint32_t y : inputs_b) {
      if (y == kNoTensor) continue;
      if (pairing.of_a(x).b == y || (a.bits(x) != 0 && a.bits(x) == b.bits(y))) return true;
    }
    conflict_a |= pairing.has_a(x) || (shared_a_[x] && !a.is_plain(x));
  }
  for (const uint32_t y : inputs_b)
    conflict_b |= y != kNoTensor && (pairing.has_b(y) || (shared_b_[y] && !b.is_plain(y)));
  if (a.ops()[op_a].copies && b.ops()[op_b].copies) return inputs_a.empty() || inputs_b.empty();
  return !conflict_a || !conflict_b;
}

OpKeys OpPairing::keys_a() const {
  OpKnown known{shared_a_, weighs_a_, std::vector<uint32_t>(shared_a_.size(), kNoTensor), stream_a_};
  for (uint32_t i = 0; i < known.joins.size(); ++i)
    if (pairing.has_a(i)) known.joins[i] = i;
  return keys_of(a, known);
}

OpKeys OpPairing::keys_b() const {
  OpKnown known{shared_b_, weighs_b_, std::vector<uint32_t>(shared_b_.size(), kNoTensor), stream_b_};
  for (uint32_t i = 0; i < known.joins.size(); ++i) known.joins[i] = pairing.a_of(i);
  return keys_of(b, known);
}

bool OpPairing::join_equal(std::span<const uint64_t> keys_a, std::span<const uint64_t> keys_b, MatchedBy by,
                           bool alone) {
  const auto free_of = [](std::span<const uint64_t> keys, const std::vector<uint32_t>& partner) {
    std::vector<Keyed> free;
    for (uint32_t i = 0; i < keys.size(); ++i)
      if (keys[i] != 0 && partner[i] == kNoOp) free.push_back({keys[i], i});
    return free;
  };
  std::vector<Keyed> free_a = free_of(keys_a, of_a_), free_b = free_of(keys_b, of_b_);
  bool any = false;
  for_each_shared(free_a, free_b, [&](std::span<const Keyed> in_a, std::span<const Keyed> in_b) {
    if (in_a.size() != in_b.size() || (alone && in_a.size() > 1)) return;
    std::vector<uint32_t> ops_a, ops_b;
    for (const Keyed& each : in_a) ops_a.push_back(each.index);
    for (const Keyed& each : in_b) ops_b.push_back(each.index);
    any |= join_group(ops_a, ops_b, by);
  });
  return any;
}

bool OpPairing::join_group(std::vector<uint32_t>& ops_a, std::vector<uint32_t>& ops_b, MatchedBy by) {
  bool in_order = ops_a.size() == 1 || ops_a.size() > kMostInGroup;
  for (size_t i = 0; !in_order && i < ops_a.size() && made_alike(ops_a[i], ops_b[i]); ++i)
    in_order = i + 1 == ops_a.size();
  bool any = false;
  for (size_t i = 0; !in_order && i < ops_a.size();) {
    const auto found = std::ranges::find_if(ops_b, [&](uint32_t op) { return made_alike(ops_a[i], op); });
    if (found == ops_b.end()) {
      ++i;
      continue;
    }
    join(ops_a[i], *found, by);
    ops_a.erase(ops_a.begin() + static_cast<ptrdiff_t>(i));
    ops_b.erase(found);
    any = true;
  }
  // What made something else, all of it: then the order is all there is.
  if (!in_order && any && ops_a.size() > 1) return true;
  for (size_t i = 0; i < ops_a.size(); ++i) join(ops_a[i], ops_b[i], by);
  return any || !ops_a.empty();
}

bool OpPairing::join_near(double most) {
  const auto free_of = [](const OpList& list, const std::vector<uint32_t>& partner) {
    std::vector<Keyed> free;
    for (uint32_t i = 0; i < partner.size(); ++i) {
      const Op& op = list.ops()[i];
      if (partner[i] != kNoOp || op.copies || op.kernel || op.undefined || op.constant || op.value_count == 0) continue;
      const uint32_t value = list.values(op).front();
      if (list.bits(value) == 0 || !list.is_real(value) || list.is_plain(value) || list.elements(value) < kFewest)
        continue;
      free.push_back({mix64(mix64(op.name + op.shape) + (op.backward ? 2 : 1)), i});
    }
    return free;
  };
  std::vector<Keyed> free_a = free_of(a, of_a_), free_b = free_of(b, of_b_);
  std::vector<std::pair<uint32_t, uint32_t>> found;
  for_each_shared(free_a, free_b, [&](std::span<const Keyed> in_a, std::span<const Keyed> in_b) {
    if (in_a.size() * in_b.size() > kMostInGroup * kMostInGroup * 16) return;
    std::vector<Nearest> of_a(in_a.size()), of_b(in_b.size());
    for (uint32_t i = 0; i < in_a.size(); ++i) {
      const TensorRecord record = side_a.tensor(a.values(a.ops()[in_a[i].index]).front());
      for (uint32_t j = 0; j < in_b.size(); ++j) {
        const TensorRecord other = side_b.tensor(b.values(b.ops()[in_b[j].index]).front());
        if (is_reordered(record, other)) continue;
        const double distance = distance_of(record, other);
        of_a[i].add(j, distance);
        of_b[j].add(i, distance);
      }
    }
    for (uint32_t i = 0; i < in_a.size(); ++i)
      if (is_telling(of_a[i], most) && is_telling(of_b[of_a[i].index], most) && of_b[of_a[i].index].index == i)
        found.emplace_back(in_a[i].index, in_b[of_a[i].index].index);
  });
  for (const auto& [x, y] : found) join(x, y, MatchedBy::kOp);
  return !found.empty();
}

bool OpPairing::made_alike(uint32_t op_a, uint32_t op_b) const {
  const std::span<const uint32_t> values_a = a.values(a.ops()[op_a]), values_b = b.values(b.ops()[op_b]);
  if (values_a.empty() || values_b.empty()) return true;
  const uint32_t x = values_a.front(), y = values_b.front();
  if (a.bits(x) == b.bits(y) || a.bits(x) == 0 || b.bits(y) == 0) return true;
  return nearness && is_near(side_a.tensor(x), side_b.tensor(y));
}

std::vector<OpPairing::Gap> OpPairing::gaps_of(size_t stream) const {
  const std::span<const uint32_t> ops_a = streams.a[stream], ops_b = streams.b[stream];
  if (ops_a.empty() || ops_b.empty()) return {};
  // Positions in the stream of matched ops, of which those that keep their order part the gaps.
  std::vector<uint32_t> at_a, at_b;
  for (uint32_t i = 0; i < ops_a.size(); ++i) {
    uint32_t other = of_a_[ops_a[i]];
    for (const uint32_t value : a.values(a.ops()[ops_a[i]]))
      if (other == kNoOp && pairing.has_a(value)) other = b.op_of(pairing.of_a(value).b);
    if (other == kNoOp) continue;
    const auto found = std::ranges::lower_bound(ops_b, other);
    if (found == ops_b.end() || *found != other) continue;
    at_a.push_back(i);
    at_b.push_back(static_cast<uint32_t>(found - ops_b.begin()));
  }
  std::vector<Gap> gaps;
  size_t a_begin = 0, b_begin = 0;
  const auto add = [&](size_t a_end, size_t b_end) {
    if (a_begin < a_end && b_begin < b_end)
      gaps.push_back({ops_a.subspan(a_begin, a_end - a_begin), ops_b.subspan(b_begin, b_end - b_begin)});
  };
  for (const uint32_t anchor : longest_ascent(at_b)) {
    add(at_a[anchor], at_b[anchor]);
    a_begin = at_a[anchor] + size_t{1};
    b_begin = at_b[anchor] + size_t{1};
  }
  add(ops_a.size(), ops_b.size());
  return gaps;
}

}  // namespace ttap
