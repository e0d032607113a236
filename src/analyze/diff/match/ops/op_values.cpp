#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "analyze/diff/match/ops/gradients.h"
#include "analyze/diff/match/ops/op_kernels.h"
#include "analyze/diff/match/ops/op_pairing.h"
#include "analyze/diff/match/ops/value_likeness.h"

// Values of ops that have no counterpart as an op: fused away, decomposed, or replaced.
namespace ttap {
namespace {

// Calls visit(tensors of A, tensors of B) for all bits that unmatched values of both sides have. What only copies comes
// last, so that a value is matched with what made it.
template <class Visit>
void for_each_same_bits(const OpPairing& ops, bool outside, Visit&& visit) {
  struct Free {
    uint64_t bits;
    bool copied;
    uint32_t tensor;
    auto rank() const { return std::tuple(bits, copied, tensor); }
  };
  const auto free_of = [&](const OpList& list, size_t count, auto&& is_free) {
    std::vector<Free> free;
    for (uint32_t i = 0; i < count; ++i) {
      if (list.op_of(i) == kNoOp || list.bits(i) == 0 || list.is_plain(i) || !is_free(i)) continue;
      if ((list.position_of(i) == kNoTensor) != outside) continue;
      free.push_back({list.bits(i), !outside && list.ops()[list.op_of(i)].copies, i});
    }
    std::ranges::sort(free, {}, &Free::rank);
    return free;
  };
  const auto free_a =
      free_of(ops.a, ops.pairing.count_a(), [&](uint32_t i) { return ops.is_shared_a(i) && !ops.pairing.has_a(i); });
  const auto free_b =
      free_of(ops.b, ops.pairing.count_b(), [&](uint32_t i) { return ops.is_shared_b(i) && !ops.pairing.has_b(i); });
  for (size_t i = 0, j = 0; i < free_a.size() && j < free_b.size();) {
    if (free_a[i].bits != free_b[j].bits) {
      ++(free_a[i].bits < free_b[j].bits ? i : j);
    } else {
      visit(free_a[i++].tensor, free_b[j++].tensor);
    }
  }
}

class ValueMatcher {
 public:
  explicit ValueMatcher(OpPairing& ops)
      : ops_(ops), a_(ops.a), b_(ops.b), kernels_a_(made_by_kernels(a_)), kernels_b_(made_by_kernels(b_)) {}

  void run() {
    for (const bool outside : {false, true})
      for_each_same_bits(ops_, outside, [&](uint32_t x, uint32_t y) { ops_.join_values(x, y, MatchedBy::kBits); });
    match_outside();
    if (ops_.is_complete()) return;
    match_arguments();
    if (ops_.is_done()) return;
    OpKeys keys_a = ops_.keys_a(), keys_b = ops_.keys_b();
    match_replaced(keys_a.place, keys_b.place);
    match_kernels(ops_);
    match_arguments();
    ops_.for_each_gap([&](const OpPairing::Gap& gap) { match_last(gap); });
  }

  void match_gradients() {
    for (const GradientPair& pair : find_gradients(ops_.side_a, ops_.side_b)) match_argument(pair.a, pair.b);
  }

  // What the two sides of an op are given in the same place is the same value, whatever made it. From the last op
  // to the first, so that it goes on through ops that are found on the way.
  void match_arguments() {
    for (uint32_t i = static_cast<uint32_t>(a_.ops().size()); i-- > 0;) {
      if (!ops_.has_a(i)) continue;
      const Op &one = a_.ops()[i], &other = b_.ops()[ops_.of_a(i)];
      const auto inputs_a = a_.inputs(one), inputs_b = b_.inputs(other);
      const auto paths_a = a_.input_paths(one), paths_b = b_.input_paths(other);
      if (one.name != other.name) {
        match_only_argument(inputs_a, inputs_b);
        continue;
      }
      for (size_t k = 0; k < inputs_a.size(); ++k) {
        // By position where they have the same, else wherever it stands.
        const size_t at = k < paths_b.size() && paths_a[k] == paths_b[k]
                              ? k
                              : static_cast<size_t>(std::ranges::find(paths_b, paths_a[k]) - paths_b.begin());
        if (at < inputs_b.size()) match_argument(inputs_a[k], inputs_b[at]);
      }
    }
  }

 private:
  bool free_a(uint32_t tensor) const { return !ops_.pairing.has_a(tensor); }
  bool free_b(uint32_t tensor) const { return !ops_.pairing.has_b(tensor); }

  // What came from outside into the two sides of an op, by path.
  void match_outside() {
    for (uint32_t i = 0; i < a_.ops().size(); ++i) {
      if (!ops_.has_a(i) || a_.ops()[i].name != b_.ops()[ops_.of_a(i)].name) continue;
      for (const uint32_t x : a_.outside(a_.ops()[i]))
        for (const uint32_t y : b_.outside(b_.ops()[ops_.of_a(i)]))
          if (free_a(x) && free_b(y) && ops_.side_a.tensor(x).path == ops_.side_b.tensor(y).path) join_if_alike(x, y);
    }
  }

  // Of different operators, whose arguments have other places: what is left when the weights are taken away.
  void match_only_argument(std::span<const uint32_t> inputs_a, std::span<const uint32_t> inputs_b) {
    const auto only = [](const OpList& list, std::span<const uint32_t> inputs, auto&& is_free) {
      uint32_t found = kNoTensor;
      for (const uint32_t input : inputs) {
        if (input == kNoTensor || list.op_of(input) == kNoOp || list.is_plain(input) || !is_free(input)) continue;
        if (found != kNoTensor && found != input) return kNoTensor;
        found = input;
      }
      return found;
    };
    const uint32_t x = only(a_, inputs_a, [&](uint32_t t) { return free_a(t) && !ops_.is_weight_a(t); });
    const uint32_t y = only(b_, inputs_b, [&](uint32_t t) { return free_b(t) && !ops_.is_weight_b(t); });
    if (x != kNoTensor && y != kNoTensor) match_argument(x, y);
  }

  void match_argument(uint32_t x, uint32_t y) {
    if (x == kNoTensor || y == kNoTensor || a_.op_of(x) == kNoOp || b_.op_of(y) == kNoOp) return;
    if (!free_a(x) || !free_b(y)) return;
    // A view or copy on one side stands for what it is a copy of; but in another order that is another value.
    const auto turned = [](const OpList& list, uint32_t from, uint32_t to) {
      return list.bits(from) != 0 && list.bits(to) != 0 && list.bits(from) != list.bits(to);
    };
    const uint32_t from_a =
        behind_copies(a_, x, [&](uint32_t t, uint32_t copy) { return free_a(t) && !turned(a_, t, copy); });
    const uint32_t from_b =
        behind_copies(b_, y, [&](uint32_t t, uint32_t copy) { return free_b(t) && !turned(b_, t, copy); });
    if (join_if_alike(from_a, from_b) || join_if_alike(x, y)) return;
    // What lies in a kernel's buffer, and came to the op in another shape.
    join_if_alike(buffer_of(a_, kernels_a_, from_a), buffer_of(b_, kernels_b_, from_b));
    // One side did not see what made it.
    const bool outside_a = a_.position_of(x) == kNoTensor, outside_b = b_.position_of(y) == kNoTensor;
    if (outside_a == outside_b || a_.elements(x) != b_.elements(y) || is_elsewhere(x, y)) return;
    // A buffer that was written to unseen counts as what it first held: then the op that was given that is another one.
    const uint32_t first = outside_a ? ops_.of_a(a_.op_of(x)) : ops_.of_b(b_.op_of(y));
    if (first == kNoOp || (outside_a ? uses(b_, first, y) : uses(a_, first, x)))
      ops_.join_values(x, y, MatchedBy::kPlace);
  }

  // By bits, what kernels made: no op tells of a view of it, so as an argument it seems to come from outside.
  using Buffers = std::unordered_map<uint64_t, uint32_t>;
  static Buffers made_by_kernels(const OpList& list) {
    Buffers made;
    for (const Op& op : list.ops())
      if (op.kernel)
        for (const uint32_t value : list.values(op))
          if (list.bits(value) != 0 && !list.is_plain(value)) made.emplace(list.bits(value), value);
    return made;
  }
  static uint32_t buffer_of(const OpList& list, const Buffers& buffers, uint32_t tensor) {
    const auto found = list.position_of(tensor) == kNoTensor ? buffers.find(list.bits(tensor)) : buffers.end();
    return found != buffers.end() && found->second < tensor ? found->second : tensor;
  }

  // Whether an op was given a value, or a copy of it.
  static bool uses(const OpList& list, uint32_t op, uint32_t tensor) {
    const auto source = [&](uint32_t t) { return behind_copies(list, t, [](uint32_t, uint32_t) { return true; }); };
    return std::ranges::any_of(list.inputs(list.ops()[op]), [&](uint32_t input) {
      return input != kNoTensor && list.op_of(input) != kNoOp && (input == tensor || source(input) == source(tensor));
    });
  }

  template <class IsWanted>
  static uint32_t behind_copies(const OpList& list, uint32_t tensor, IsWanted&& is_wanted) {
    for (uint32_t at = tensor;;) {
      const uint32_t op = list.position_of(at) == kNoTensor ? kNoOp : list.op_of(at);
      if (op == kNoOp || !list.ops()[op].copies || list.inputs(list.ops()[op]).empty()) return at;
      const uint32_t input = list.inputs(list.ops()[op]).front();
      // An earlier record in a sound file, which also ends a circle in any other.
      if (input >= at || list.op_of(input) == kNoOp || !is_wanted(input, at)) return at;
      at = input;
    }
  }

  bool join_if_alike(uint32_t x, uint32_t y) {
    if (!free_a(x) || !free_b(y)) return false;
    const bool outside = a_.position_of(x) == kNoTensor;
    if (outside != (b_.position_of(y) == kNoTensor) || a_.elements(x) != b_.elements(y)) return false;
    if (a_.is_real(x) != b_.is_real(y)) return false;
    if (is_elsewhere(x, y)) return false;
    const uint32_t op_a = a_.op_of(x), op_b = b_.op_of(y);
    const Op &one = a_.ops()[op_a], &other = b_.ops()[op_b];
    if (!outside && !ops_.may_replace(one, other)) return false;
    if (outside) {
      ops_.join_values(x, y, MatchedBy::kOp);
    } else if (!ops_.has_a(op_a) && !ops_.has_b(op_b) && is_replaced(one, other)) {
      ops_.join(op_a, op_b, one.name == other.name ? MatchedBy::kOp : MatchedBy::kPlace);
    } else {
      ops_.join_values(x, y, MatchedBy::kPlace);
    }
    return true;
  }

  // What the other side has elsewhere, bit for bit, is not this.
  bool is_elsewhere(uint32_t x, uint32_t y) const {
    const bool shared = (ops_.is_shared_a(x) && !a_.is_plain(x)) || (ops_.is_shared_b(y) && !b_.is_plain(y));
    return shared && a_.bits(x) != b_.bits(y);
  }

  static bool is_replaced(const Op& a, const Op& b) {
    return !a.kernel && !b.kernel && a.copies == b.copies && a.input_count == b.input_count && a.shape == b.shape;
  }

  // Another operator that is given the same, and makes something of the same shape.
  void match_replaced(std::vector<uint64_t>& keys_a, std::vector<uint64_t>& keys_b) {
    const auto leave_out = [](const OpList& list, std::vector<uint64_t>& keys) {
      for (uint32_t i = 0; i < keys.size(); ++i) {
        const Op& op = list.ops()[i];
        if (op.kernel || op.copies || op.value_count == 0) keys[i] = 0;
      }
    };
    leave_out(a_, keys_a);
    leave_out(b_, keys_b);
    ops_.join_equal(keys_a, keys_b, MatchedBy::kPlace, true);
  }

  // Where both sides have something without a counterpart between the same two ops, the last of each is what the next
  // op is given: a decomposition, or another operator. Of an op with several results that is the first.
  void match_last(const OpPairing::Gap& gap) {
    const OpUses &uses_a = ops_.listed_a.uses(), &uses_b = ops_.listed_b.uses();
    const auto last_of = [](const OpList& list, std::span<const uint32_t> ops, auto&& is_free) {
      for (size_t i = ops.size(); i-- > 0;) {
        const Op& op = list.ops()[ops[i]];
        if (op.copies || op.value_count == 0) continue;
        const uint32_t value = list.values(op).front();
        return !op.kernel && is_free(value) ? value : kNoTensor;
      }
      return kNoTensor;
    };
    const uint32_t x = last_of(a_, gap.a, [&](uint32_t t) { return free_a(t); });
    const uint32_t y = last_of(b_, gap.b, [&](uint32_t t) { return free_b(t); });
    if (x == kNoTensor || y == kNoTensor) return;
    if (is_given_on(uses_a.of(x), uses_b.of(y)) ||
        (ops_.nearness && is_near(ops_.side_a.tensor(x), ops_.side_b.tensor(y))))
      join_if_alike(x, y);
  }

  // Whether two values go the same way: to the two sides of an op, or nowhere.
  bool is_given_on(std::span<const uint32_t> users_a, std::span<const uint32_t> users_b) const {
    if (users_a.empty() || users_b.empty()) return users_a.empty() && users_b.empty();
    return std::ranges::any_of(users_a, [&](uint32_t user) {
      return ops_.has_a(user) && std::ranges::find(users_b, ops_.of_a(user)) != users_b.end();
    });
  }

  OpPairing& ops_;
  const OpList& a_;
  const OpList& b_;
  const Buffers kernels_a_, kernels_b_;
};

}  // namespace

void match_arguments(OpPairing& ops) { ValueMatcher(ops).match_arguments(); }

void match_gradients(OpPairing& ops) { ValueMatcher(ops).match_gradients(); }

void match_values(OpPairing& ops) { ValueMatcher(ops).run(); }

}  // namespace ttap
