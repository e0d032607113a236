#include <algorithm>
#include <string>
#include <tuple>

#include "analyze/diff/op_pairing.h"
#include "analyze/event_op.h"
#include "core/op_name.h"

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
  explicit ValueMatcher(OpPairing& ops) : ops_(ops), a_(ops.a), b_(ops.b) {}

  void run() {
    for (const bool outside : {false, true})
      for_each_same_bits(ops_, outside, [&](uint32_t x, uint32_t y) { ops_.join_values(x, y, MatchedBy::kBits); });
    match_outside();
    if (ops_.is_complete()) return;
    match_arguments();
    if (ops_.is_done()) return;
    OpKeys keys_a = ops_.keys_a(), keys_b = ops_.keys_b();
    match_replaced(keys_a.place, keys_b.place);
    ops_.for_each_gap([&](const OpPairing::Gap& gap) { match_kernels(gap); });
    match_arguments();
    ops_.for_each_gap([&](const OpPairing::Gap& gap) { match_last(gap); });
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
    // A view or copy on one side stands for what it is a copy of.
    const uint32_t from_a = behind_copies(a_, x, [&](uint32_t t) { return free_a(t); });
    const uint32_t from_b = behind_copies(b_, y, [&](uint32_t t) { return free_b(t); });
    if (join_if_alike(from_a, from_b) || join_if_alike(x, y)) return;
    // One side did not see what made it.
    const bool outside_a = a_.position_of(x) == kNoTensor, outside_b = b_.position_of(y) == kNoTensor;
    if (outside_a == outside_b || a_.elements(x) != b_.elements(y) || is_elsewhere(x, y)) return;
    // A buffer that was written to unseen counts as what it first held: then the op that was given that is another one.
    const uint32_t first = outside_a ? ops_.of_a(a_.op_of(x)) : ops_.of_b(b_.op_of(y));
    if (first == kNoOp || (outside_a ? uses(b_, first, y) : uses(a_, first, x)))
      ops_.join_values(x, y, MatchedBy::kPlace);
  }

  // Whether an op was given a value, or a copy of it.
  static bool uses(const OpList& list, uint32_t op, uint32_t tensor) {
    const auto source = [&](uint32_t t) { return behind_copies(list, t, [](uint32_t) { return true; }); };
    return std::ranges::any_of(list.inputs(list.ops()[op]), [&](uint32_t input) {
      return input != kNoTensor && list.op_of(input) != kNoOp && (input == tensor || source(input) == source(tensor));
    });
  }

  template <class IsFree>
  static uint32_t behind_copies(const OpList& list, uint32_t tensor, IsFree&& is_free) {
    for (uint32_t at = tensor;;) {
      const uint32_t op = list.position_of(at) == kNoTensor ? kNoOp : list.op_of(at);
      if (op == kNoOp || !list.ops()[op].copies || list.inputs(list.ops()[op]).empty()) return at;
      const uint32_t input = list.inputs(list.ops()[op]).front();
      // An earlier record in a sound file, which also ends a circle in any other.
      if (input >= at || list.op_of(input) == kNoOp || !is_free(input)) return at;
      at = input;
    }
  }

  bool join_if_alike(uint32_t x, uint32_t y) {
    if (!free_a(x) || !free_b(y)) return false;
    const bool outside = a_.position_of(x) == kNoTensor;
    if (outside != (b_.position_of(y) == kNoTensor) || a_.elements(x) != b_.elements(y)) return false;
    if (is_elsewhere(x, y)) return false;
    const uint32_t op_a = a_.op_of(x), op_b = b_.op_of(y);
    const Op &one = a_.ops()[op_a], &other = b_.ops()[op_b];
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

  // Fused kernels of either side, from the last to the first.
  void match_kernels(const OpPairing::Gap& gap) {
    const auto match = [&](const OpList& kernels, std::span<const uint32_t> with, const Side& side,
                           const OpList& others, std::span<const uint32_t> ops, const Side& other_side, bool swapped) {
      const bool has_kernel = std::ranges::any_of(with, [&](uint32_t op) { return kernels.ops()[op].kernel; });
      if (!has_kernel) return;
      size_t end = ops.size();
      for (size_t k = with.size(); k-- > 0;) {
        const Op& kernel = kernels.ops()[with[k]];
        if (!kernel.kernel) continue;
        const std::string text = std::string(side.event(kernel.event).name) + "_";
        const auto names = [&](const Op& op) {
          const std::string called = operator_of(other_side.event(op.event));
          const std::string_view name = split_operator(called).name;
          const size_t begin = std::min(name.find_first_not_of('_'), name.size() - 1);
          return text.find("_" + std::string(name.substr(begin)) + "_") != std::string::npos;
        };
        const auto values = kernels.values(kernel);
        for (size_t v = values.size(); v-- > 0;) {
          if (!(swapped ? free_a(values[v]) : free_b(values[v])) || is_unchanged(kernels, kernel, values[v])) continue;
          const size_t at = last_like(kernels, values[v], others, ops.first(end), swapped, names);
          if (at < end && v == 0) end = begin_of_fused(others, ops, names, at);
        }
      }
    };
    match(b_, gap.b, ops_.side_b, a_, gap.a, ops_.side_a, false);
    match(a_, gap.a, ops_.side_a, b_, gap.b, ops_.side_b, true);
  }

  // An argument that a kernel might have written to, and did not.
  static bool is_unchanged(const OpList& list, const Op& op, uint32_t value) {
    return std::ranges::any_of(list.inputs(op), [&](uint32_t input) {
      return input != kNoTensor && list.bits(input) != 0 && list.bits(input) == list.bits(value);
    });
  }

  // Joins `value` with the last free value of the same shape, of an op that the kernel's name mentions or else of any.
  // Returns where that op stands, or ops.size().
  template <class Names>
  size_t last_like(const OpList& kernels, uint32_t value, const OpList& others, std::span<const uint32_t> ops,
                   bool swapped, Names&& names) {
    for (const bool named : {true, false})
      for (size_t i = ops.size(); i-- > 0;) {
        const Op& op = others.ops()[ops[i]];
        if (op.kernel || op.copies || (named && !names(op))) continue;
        const auto made = others.values(op);
        for (size_t v = made.size(); v-- > 0;) {
          if (others.shape(made[v]) != kernels.shape(value)) continue;
          if (!(swapped ? free_b(made[v]) : free_a(made[v]))) continue;
          swapped ? ops_.join_values(value, made[v], MatchedBy::kPlace)
                  : ops_.join_values(made[v], value, MatchedBy::kPlace);
          return i;
        }
      }
    return ops.size();
  }

  // Where the ops begin that went into the same kernel as the one at `at`: each operator that its name mentions once.
  template <class Names>
  static size_t begin_of_fused(const OpList& others, std::span<const uint32_t> ops, Names&& names, size_t at) {
    std::vector<uint64_t> taken = {others.ops()[ops[at]].name};
    size_t begin = at;
    while (begin > 0) {
      const Op& op = others.ops()[ops[begin - 1]];
      if (!op.copies && (!names(op) || std::ranges::find(taken, op.name) != taken.end())) break;
      if (!op.copies) taken.push_back(op.name);
      --begin;
    }
    return begin;
  }

  // Where both sides have something without a counterpart between the same two ops, the last of each is what the next
  // op is given: a decomposition, or another operator.
  void match_last(const OpPairing::Gap& gap) {
    const auto last_of = [](const OpList& list, std::span<const uint32_t> ops, auto&& is_free) {
      for (size_t i = ops.size(); i-- > 0;) {
        const Op& op = list.ops()[ops[i]];
        if (op.copies || op.value_count == 0) continue;
        const auto values = list.values(op);
        return is_free(values.back()) ? values.back() : kNoTensor;
      }
      return kNoTensor;
    };
    const uint32_t x = last_of(a_, gap.a, [&](uint32_t t) { return free_a(t); });
    const uint32_t y = last_of(b_, gap.b, [&](uint32_t t) { return free_b(t); });
    if (x != kNoTensor && y != kNoTensor) join_if_alike(x, y);
  }

  OpPairing& ops_;
  const OpList& a_;
  const OpList& b_;
};

}  // namespace

void match_arguments(OpPairing& ops) { ValueMatcher(ops).match_arguments(); }

void match_values(OpPairing& ops) { ValueMatcher(ops).run(); }

}  // namespace ttap
