#include "analyze/diff/blame/ends.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "analyze/diff/blame/compared_side.h"
#include "analyze/diff/match/ops/value_likeness.h"
#include "analyze/ops/event_op.h"
#include "analyze/ops/op_facts.h"

namespace ttap {
namespace {

constexpr size_t kMostEnds = 1024;   // that are looked at
constexpr size_t kMostAbove = 1024;  // calls that are looked at above one of them

bool is_called_only(const Side& side) {
  for (size_t i = 0; i < side.event_count(); ++i)
    if (const EventRecord event = side.event(i); is_op(event) && event.kind != "op") return false;
  return true;
}

// One side, and what is known of its calls.
class Program : public ComparedSide {
 public:
  Program(const SideOps& ops, const char* its_name, std::span<const TensorDiff> tensors, uint32_t Match::*record)
      : ComparedSide(ops.side(), tensors, record), name(its_name), list(ops.list()), uses_(ops.uses()) {
    for (uint32_t i = 0; i < side.tensor_count(); ++i)
      if (list.op_of(i) != kNoOp && list.bits(i) != 0) bits_.insert(list.bits(i));
    ends_.resize(list.ops().size());
    // From the last to the first: what a view or copy is used for was decided before it.
    for (uint32_t op = static_cast<uint32_t>(ends_.size()); op-- > 0;)
      ends_[op] = std::ranges::all_of(list.values(list.ops()[op]), [&](uint32_t value) {
        return std::ranges::all_of(uses_.of(value), [&](uint32_t user) {
          return user > op && (list.ops()[user].copies || is_view(user)) && ends_[user];
        });
      });
  }

  std::string called(uint32_t op) const { return operator_of(side.event(list.ops()[op].event)); }
  bool is_view(uint32_t op) const { return is_view_op(called(op)); }
  // Whether nothing is made of its values but views and copies.
  bool is_end(uint32_t op) const { return ends_[op]; }
  bool writes(uint32_t op, uint32_t tensor) const {
    const uint32_t event = list.ops()[op].event;
    for (uint32_t k = 0; k < side.event(event).use_count; ++k)
      if (const UseRecord use = side.use(event, k); use.role == "in" && use.record == tensor && use.written)
        return true;
    return false;
  }
  // Whether nothing writes to a value or to a view of it: it is what the memory holds in the end.
  bool stays(uint32_t tensor) const {
    std::vector<uint32_t> views = {tensor};
    for (size_t next = 0; next < views.size(); ++next)
      for (const uint32_t user : uses_.of(views[next])) {
        if (writes(user, views[next])) return false;
        const std::span<const uint32_t> shown = list.values(list.ops()[user]);
        if (is_view(user) && views.size() < kMostAbove) views.insert(views.end(), shown.begin(), shown.end());
      }
    return true;
  }
  std::span<const uint32_t> users_of(uint32_t tensor) const { return uses_.of(tensor); }
  bool has_bits(uint64_t bits) const { return bits_.contains(bits); }
  std::string key(uint32_t tensor) const { return to_string(side.tensor(tensor).key()); }

  const char* const name;
  const OpList& list;

 private:
  const OpUses& uses_;
  std::vector<bool> ends_;
  std::unordered_set<uint64_t> bits_;
};

class Ends {
 public:
  Ends(const SideOps& a, const SideOps& b, std::span<TensorDiff> tensors)
      : tensors_(tensors), a_(a, "A", tensors, &Match::a), b_(b, "B", tensors, &Match::b) {}

  void find() {
    go_on(a_, b_);
    go_on(b_, a_);
  }

 private:
  bool is_only(const Program& of, uint32_t tensor) const {
    const uint32_t position = of.position_of[tensor];
    if (position == kNoTensor) return false;
    return (tensors_[position].match.a == kNoTensor) != (tensors_[position].match.b == kNoTensor);
  }
  // The other side's record; kNoTensor for none.
  uint32_t partner_of(const Program& of, uint32_t tensor) const {
    const uint32_t position = of.position_of[tensor];
    if (position == kNoTensor || is_only(of, tensor)) return kNoTensor;
    return &of == &a_ ? tensors_[position].match.b : tensors_[position].match.a;
  }

  void go_on(const Program& more, const Program& less) {
    size_t looked_at = 0;
    for (uint32_t op = 0; op < more.list.ops().size() && looked_at < kMostEnds; ++op) {
      if (!ends_alone(more, less, op)) continue;
      ++looked_at;
      look_above(more, less, op);
    }
  }

  // Whether a call ends its program with something that the other one has nowhere.
  bool ends_alone(const Program& more, const Program& less, uint32_t index) const {
    const Op& op = more.list.ops()[index];
    if (op.value_count == 0 || op.constant || op.undefined || !more.is_end(index)) return false;
    const std::string called = more.called(index);
    if (is_view_op(called) || draws_random_numbers(called)) return false;
    const std::span<const uint32_t> values = more.list.values(op);
    return std::ranges::all_of(values,
                               [&](uint32_t value) {
                                 return more.list.bits(value) != 0 && is_only(more, value) &&
                                        !less.has_bits(more.list.bits(value));
                               }) &&
           std::ranges::any_of(values, [&](uint32_t value) { return more.list.is_real(value); });
  }

  // Whether a value without a counterpart, of the other side, may be this one but for rounding.
  bool is_near_to_any(const Program& more, const Program& less, uint32_t value) const {
    const TensorRecord record = more.side.tensor(value);
    for (const TensorDiff& tensor : tensors_) {
      const uint32_t other = &less == &a_ ? tensor.match.a : tensor.match.b;
      if (other == kNoTensor || !is_only(less, other) || less.list.elements(other) != more.list.elements(value))
        continue;
      if (is_near(record, less.side.tensor(other))) return true;
    }
    return false;
  }

  // Goes up from an end to values that both sides have.
  void look_above(const Program& more, const Program& less, uint32_t end) {
    std::vector<uint32_t> above = {end};
    std::unordered_map<uint32_t, uint32_t> below = {{end, kNoOp}};  // by call: what led to it
    for (size_t next = 0; next < above.size() && next < kMostAbove; ++next)
      for (const uint32_t input : more.list.inputs(more.list.ops()[above[next]])) {
        if (input == kNoTensor || more.list.op_of(input) == kNoOp) continue;
        if (const uint32_t partner = partner_of(more, input); partner != kNoTensor) {
          if (stops_at(less, partner) && !begins_backward(more, above[next], input) &&
              !is_only_copied(more, end, above[next], below, input))
            return mark(more, less, end, first_of(more, above[next], below), partner);
          if (goes_elsewhere(less, more, partner) && !begins_backward(more, above[next], input))
            return mark(more, less, end, first_of(more, above[next], below), partner, false);
          if (above[next] == end && more.writes(end, input) && !overwrites_what_it_writes(more.called(end)) &&
              less.stays(partner))
            return mark(more, less, end, end, partner);
          continue;
        }
        const uint32_t maker = more.list.op_of(input);
        const bool made = more.list.position_of(input) != kNoTensor && is_only(more, input);
        if (made && maker < above[next] && !more.list.ops()[maker].constant && below.emplace(maker, above[next]).second)
          above.push_back(maker);
      }
  }

  // Whether the program ends with what made a value.
  static bool stops_at(const Program& less, uint32_t value) {
    const uint32_t op = less.list.op_of(value);
    return op != kNoOp && less.list.position_of(value) != kNoTensor && less.is_end(op) &&
           !less.list.ops()[op].constant && less.list.is_real(value);
  }

  // Whether all that is made of a value is alone, and among it is an end.
  bool goes_elsewhere(const Program& of, const Program& other, uint32_t value) const {
    if (of.list.op_of(value) == kNoOp || of.list.position_of(value) == kNoTensor) return false;
    std::vector<uint32_t> values = {value};
    bool ends = false;
    for (size_t next = 0; next < values.size(); ++next)
      for (const uint32_t user : of.users_of(values[next])) {
        const std::span<const uint32_t> made = of.list.values(of.list.ops()[user]);
        const bool alone = std::ranges::all_of(made, [&](uint32_t v) { return v > values[next] && is_only(of, v); });
        if (made.empty() || !alone || values.size() > kMostAbove) return false;
        ends |= ends_alone(of, other, user) && !is_near_to_any(of, other, made.front());
        values.insert(values.end(), made.begin(), made.end());
      }
    return ends;
  }

  // A side that runs no backward is compared by its forward.
  static bool begins_backward(const Program& more, uint32_t op, uint32_t input) {
    return more.list.ops()[op].backward && !more.list.ops()[more.list.op_of(input)].backward;
  }

  // Whether all on the way only copies, and not all of the value: a part of it was put aside.
  static bool is_only_copied(const Program& more, uint32_t end, uint32_t first,
                             const std::unordered_map<uint32_t, uint32_t>& below, uint32_t input) {
    for (uint32_t op = first; op != kNoOp; op = below.at(op))
      if (!more.list.ops()[op].copies && !more.is_view(op)) return false;
    return more.list.elements(more.list.values(more.list.ops()[end]).front()) != more.list.elements(input);
  }

  // The first call on the way down that is more than a view or copy; else the end itself.
  static uint32_t first_of(const Program& more, uint32_t op, const std::unordered_map<uint32_t, uint32_t>& below) {
    while ((more.list.ops()[op].copies || more.is_view(op)) && below.at(op) != kNoOp) op = below.at(op);
    return op;
  }

  void mark(const Program& more, const Program& less, uint32_t end, uint32_t first, uint32_t last,
            bool is_left = true) {
    const uint32_t ending = more.list.values(more.list.ops()[end]).front();
    uint32_t value = more.list.values(more.list.ops()[first]).front();
    if (!is_only(more, value)) value = ending;
    TensorDiff& tensor = tensors_[more.position_of[value]];
    if (tensor.cause != Cause::kNone || is_near_to_any(more, less, ending)) return;
    tensor.cause = Cause::kIntroduced;
    tensor.reason =
        fmt::format("{} {} {}, from which {} goes on to {}", less.name,
                    is_left ? "ends with" : "makes something else of", less.key(last), more.name, more.key(ending));
  }

  const std::span<TensorDiff> tensors_;
  Program a_, b_;
};

}  // namespace

void find_ends(const SideOps& a, const SideOps& b, std::span<TensorDiff> tensors) {
  const auto is_only = [](const TensorDiff& tensor) {
    return tensor.verdict == Verdict::kMissing || tensor.verdict == Verdict::kExtra;
  };
  if (std::ranges::none_of(tensors, is_only)) return;
  if (std::ranges::any_of(tensors, [](const TensorDiff& tensor) { return differs(tensor) || tensor.is_wrong; })) return;
  if (is_called_only(a.side()) && is_called_only(b.side())) Ends(a, b, tensors).find();
}

}  // namespace ttap
