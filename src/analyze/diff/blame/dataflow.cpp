#include "analyze/diff/blame/dataflow.h"

#include <algorithm>
#include <array>
#include <functional>

#include "analyze/diff/blame/cause.h"
#include "analyze/diff/match/ops/op_list.h"
#include "analyze/diff/match/ops/value_likeness.h"
#include "analyze/ops/event_op.h"
#include "analyze/ops/op_facts.h"
#include "core/op_name.h"

namespace ttap {
namespace {

constexpr size_t kMostLookedThrough = 4096;  // ops without a counterpart, above one argument

// The operator, as ops are told apart; of a kernel with its number.
uint64_t name_of(const EventRecord& event) {
  const std::string op = operator_of(event);
  return event.kind == "kernel" ? std::hash<std::string>()(op) : operator_name_hash(split_operator(op).name);
}

// Whether it does not matter which of the two arguments comes first.
bool is_symmetric(uint64_t name) {
  constexpr std::array<std::string_view, 9> kNames{"add", "mul",         "maximum",    "minimum",    "eq",
                                                   "ne",  "logical_and", "logical_or", "bitwise_and"};
  return std::ranges::any_of(kNames, [&](std::string_view each) { return operator_name_hash(each) == name; });
}

}  // namespace

Dataflow::Dataflow(const Side& a, const Side& b, std::span<const TensorDiff> tensors, bool strict)
    : tensors_(tensors), a_(a, tensors, &Match::a), b_(b, tensors, &Match::b), strict_(strict) {
  // Those are asked for only where a side has something that the other has not.
  if (std::ranges::all_of(tensors,
                          [](const TensorDiff& t) { return t.match.a != kNoTensor && t.match.b != kNoTensor; }))
    return;
  for (Values* of : {&a_, &b_})
    for (size_t i = 0; i < of->side.tensor_count(); ++i)
      if (const TensorRecord record = of->side.tensor(i); record.has_fingerprint) {
        of->bits.insert(record.fingerprint.hash);
        const bool outside = is_from_outside(*of, record);
        if (const uint64_t content = outside ? content_of(record) : 0; content != 0) of->given.insert(content);
        if (outside || record.event >= of->side.event_count()) continue;
        const std::string_view kind = of->side.event(record.event).kind;
        if (kind == "kernel") of->made_by_kernels.emplace(record.fingerprint.hash, static_cast<uint32_t>(i));
        if (kind == "module" && is_paired(of->position_of[i]))
          of->of_modules.emplace(record.fingerprint.hash, of->position_of[i]);
      }
}

bool Dataflow::is_of_op(const Values& of, uint32_t tensor) {
  const uint32_t event = of.side.tensor(tensor).event;
  return event < of.side.event_count() && is_op(of.side.event(event));
}

bool Dataflow::is_from_outside(const Values& of, const TensorRecord& record) {
  if (is_input(record.role)) return true;
  return record.event < of.side.event_count() && is_placeholder(of.side.event(record.event));
}

bool Dataflow::tells(const Values& of, uint32_t tensor) {
  if (tensor == kNoTensor) return false;
  const TensorRecord record = of.side.tensor(tensor);
  if (is_input(record.role) || record.event >= of.side.event_count()) return false;
  // A module of a graph says which value is its result, and not what it was given.
  const EventRecord event = of.side.event(record.event);
  return event.use_count > 0 && (is_op(event) || of.side.use(record.event, 0).role == "in");
}

std::optional<Dataflow::Inputs> Dataflow::inputs_of(uint32_t position) const {
  const Match& match = tensors_[position].match;
  // A module stands for all that ran inside it, and an op that was matched with it for its last step only.
  if (match.a != kNoTensor && match.b != kNoTensor && is_of_op(a_, match.a) != is_of_op(b_, match.b))
    return std::nullopt;
  const bool by_a = tells(a_, match.a), by_b = tells(b_, match.b);
  if (!by_a && !by_b) return std::nullopt;
  if (by_a && by_b)
    if (auto inputs = one_by_one(match.a, match.b)) return inputs;
  Inputs of_a, of_b;
  if (by_a) collect(a_, b_, arguments_of(a_, a_.side.tensor(match.a).event), of_a);
  if (by_b) collect(b_, a_, arguments_of(b_, b_.side.tensor(match.b).event), of_b);
  if (!by_a) return of_b;
  if (by_b) merge(of_a, std::move(of_b));
  return of_a;
}

// The arguments of the one are those of the other. Where one side knows them all, all are known.
void Dataflow::merge(Inputs& into, Inputs from) {
  into.found.insert(into.found.end(), from.found.begin(), from.found.end());
  std::ranges::sort(into.found);
  into.found.erase(std::unique(into.found.begin(), into.found.end()), into.found.end());
  into.same_bits = std::max(into.same_bits, from.same_bits);
  into.unknown = std::min(into.unknown, from.unknown);
  add_looked_through(into, from);
}

void Dataflow::add_looked_through(Inputs& into, const Inputs& from) {
  if (from.through) into.through = into.through ? coarser(*into.through, *from.through) : *from.through;
  into.through_sort |= from.through_sort;
}

void Dataflow::look_through(const Values& of, const TensorRecord& record, Inputs& inputs) {
  const std::string op = operator_of(of.side.event(record.event));
  if (leaves_values_alone(op) || is_view_op(op)) return;
  inputs.through_sort |= orders_ties_freely(op);
  if (epsilon_of(dtype_of(record)) == 0) return;
  inputs.through = inputs.through ? coarser(*inputs.through, dtype_of(record)) : dtype_of(record);
}

std::vector<Dataflow::Argument> Dataflow::arguments_of(const Values& of, uint32_t event) const {
  std::vector<Argument> arguments;
  const EventRecord call = of.side.event(event);
  const bool is_kernel = call.kind == "kernel";
  for (uint32_t k = 0; k < call.use_count; ++k) {
    const UseRecord use = of.side.use(event, k);
    if (use.role != "in") continue;
    if (is_for_results(use.path)) {
      if (strict_ && is_kernel) arguments.push_back({use.path, kNoTensor, event});
      continue;
    }
    arguments.push_back({use.path, use.record < of.position_of.size() ? use.record : kNoTensor, event});
  }
  return arguments;
}

// What calls wrote into the bytes of an argument that nothing else made.
std::vector<uint32_t> Dataflow::part_records(const Values& of, uint32_t record) {
  std::vector<uint32_t> parts;
  const TensorRecord given = of.side.tensor(record);
  if (given.role != "in" || given.event >= of.side.event_count()) return parts;
  for (uint32_t k = of.side.event(given.event).use_count; k-- > 0;) {
    const UseRecord use = of.side.use(given.event, k);
    if (use.role != "part") break;
    if (use.path == given.path && use.record < of.position_of.size()) parts.push_back(use.record);
  }
  return parts;
}

std::vector<uint32_t> Dataflow::parts_of(uint32_t position) const {
  std::vector<uint32_t> found;
  const auto add = [&](const Values& of, uint32_t tensor) {
    if (tensor == kNoTensor) return;
    for (const uint32_t part : part_records(of, tensor))
      if (of.position_of[part] != kNoTensor) found.push_back(of.position_of[part]);
  };
  add(a_, tensors_[position].match.a);
  add(b_, tensors_[position].match.b);
  std::ranges::sort(found);
  return found;
}

bool Dataflow::is_paired(uint32_t position) const {
  return position != kNoTensor && tensors_[position].match.a != kNoTensor && tensors_[position].match.b != kNoTensor;
}

// What lies in a kernel's buffer seems to come from outside where it is used in another shape.
uint32_t Dataflow::buffer_of(const Values& of, uint32_t record) {
  const TensorRecord found = of.side.tensor(record);
  if (!found.has_fingerprint || !is_from_outside(of, found)) return record;
  const auto made = of.made_by_kernels.find(found.fingerprint.hash);
  return made != of.made_by_kernels.end() && made->second < record ? made->second : record;
}

void Dataflow::collect(const Values& of, const Values& other, std::vector<Argument> arguments, Inputs& inputs) const {
  std::unordered_set<uint32_t> seen, events;
  for (size_t next = 0; next < arguments.size(); ++next) {
    const auto [path, given, event] = arguments[next];
    if (given == kNoTensor) {
      ++inputs.unknown;
      continue;
    }
    const uint32_t index = is_paired(of.position_of[given]) ? given : buffer_of(of, given);
    if (!seen.insert(index).second) continue;
    if (is_paired(of.position_of[index])) {
      inputs.found.push_back(of.position_of[index]);
      continue;
    }
    const TensorRecord record = of.side.tensor(index);
    if (record.event < of.side.event_count() && leaves_undefined(of.side.event(record.event))) continue;
    const bool outside = is_from_outside(of, record);
    const uint64_t content = outside ? content_of(record) : 0;
    if ((record.has_fingerprint && other.bits.contains(record.fingerprint.hash)) ||
        (content != 0 && other.given.contains(content))) {
      ++inputs.same_bits;
    } else if (record.role != "in" && !outside && record.event < of.side.event_count() && record.event != event &&
               of.side.event(record.event).returned && events.size() < kMostLookedThrough) {
      look_through(of, record, inputs);
      if (!events.insert(record.event).second) continue;
      const std::vector<Argument> above = arguments_of(of, record.event);
      arguments.insert(arguments.end(), above.begin(), above.end());
    } else {
      ++inputs.unknown;
    }
  }
}

// The arguments of two calls of the same operator that have the same places; nothing where they are not.
std::optional<Dataflow::Inputs> Dataflow::one_by_one(uint32_t a, uint32_t b) const {
  const uint32_t event_a = a_.side.tensor(a).event, event_b = b_.side.tensor(b).event;
  const uint64_t name = name_of(a_.side.event(event_a));
  if (name != name_of(b_.side.event(event_b))) return std::nullopt;
  const std::vector<Argument> of_a = arguments_of(a_, event_a);
  std::vector<Argument> of_b = arguments_of(b_, event_b);
  if (!std::ranges::equal(of_a, of_b, {}, &Argument::path, &Argument::path)) return std::nullopt;
  if (of_a.size() == 2 && is_symmetric(name) && are_one(of_a[0], of_b[1]) && are_one(of_a[1], of_b[0]))
    std::swap(of_b[0], of_b[1]);
  size_t same = 0;
  for (size_t k = 0; k < of_a.size(); ++k) same += has_same_bits(of_a[k], of_b[k]);
  Inputs inputs;
  for (size_t k = 0; k < of_a.size(); ++k) compare(of_a[k], of_b[k], same + 1 == of_a.size(), inputs);
  std::ranges::sort(inputs.found);
  inputs.found.erase(std::unique(inputs.found.begin(), inputs.found.end()), inputs.found.end());
  return inputs;
}

// Whether two arguments are one value: it is matched, or has the same bits.
bool Dataflow::are_one(const Argument& x, const Argument& y) const {
  if (x.record == kNoTensor || y.record == kNoTensor) return false;
  if (const uint32_t position = a_.position_of[x.record]; position != kNoTensor && position == b_.position_of[y.record])
    return true;
  const TensorRecord a = a_.side.tensor(x.record), b = b_.side.tensor(y.record);
  return a.has_fingerprint && b.has_fingerprint && a.fingerprint.hash == b.fingerprint.hash;
}

bool Dataflow::has_same_bits(const Argument& x, const Argument& y) const {
  if (!are_one(x, y)) return false;
  const uint32_t position = a_.position_of[x.record];
  return !is_paired(position) || position != b_.position_of[y.record] ||
         tensors_[position].verdict == Verdict::kIdentical;
}

// The result of a module that one of the two is, bit for bit, and that differs: code of the module wrote it, and as an
// argument it seems to come from outside.
uint32_t Dataflow::differing_result(const Argument& x, const Argument& y) const {
  for (const auto& [of, record] : {std::pair(&a_, x.record), std::pair(&b_, y.record)}) {
    const TensorRecord given = of->side.tensor(record);
    const auto found = given.has_fingerprint ? of->of_modules.find(given.fingerprint.hash) : of->of_modules.end();
    if (found != of->of_modules.end() && differs(tensors_[found->second])) return found->second;
  }
  return kNoTensor;
}

// One argument of both sides.
void Dataflow::compare(const Argument& x, const Argument& y, bool others_agree, Inputs& inputs) const {
  if (are_one(x, y)) {
    const uint32_t position = a_.position_of[x.record];
    if (is_paired(position) && position == b_.position_of[y.record]) {
      inputs.found.push_back(position);
    } else {
      ++inputs.same_bits;
    }
    return;
  }
  Inputs both, of_b;
  collect(a_, b_, {x}, both);
  collect(b_, a_, {y}, of_b);
  merge(both, std::move(of_b));
  add_looked_through(inputs, both);
  const bool known = both.unknown == 0 && x.record != kNoTensor && y.record != kNoTensor;
  const bool explained =
      std::ranges::any_of(both.found, [&](uint32_t k) { return differs(tensors_[k]) || tensors_[k].rounding > 0; });
  if (known && !explained) {
    const TensorRecord a = a_.side.tensor(x.record), b = b_.side.tensor(y.record);
    const bool replaced = is_replaced(a_, x.record, b_, y.record, both, others_agree) ||
                          is_replaced(b_, y.record, a_, x.record, both, others_agree);
    const uint32_t result = differing_result(x, y);
    if (!replaced && result == kNoTensor && is_rounded(a, b)) {
      ++(strict_ ? inputs.unknown : inputs.within);
      return;
    }
    if (a.has_fingerprint && b.has_fingerprint) {
      if (inputs.other) return;
      const auto maker = [&](const Values& of, uint32_t record) {
        return replaced ? first_only_maker(of, record) : only_maker(of, record);
      };
      const uint32_t only_b = maker(b_, y.record);
      const uint32_t only = only_b != kNoTensor ? only_b : maker(a_, x.record);
      if (only == kNoTensor && result != kNoTensor)
        inputs.found.push_back(result);
      else
        inputs.other = Other{x.path, x.record, y.record, only, replaced};
      return;
    }
  }
  inputs.found.insert(inputs.found.end(), both.found.begin(), both.found.end());
  inputs.same_bits += both.same_bits;
  inputs.unknown += both.unknown;
}

// Whether both sides have a value, bit for bit, and the one that does not give it has something else in its place: made
// of that value, or come from outside. Where it is also made of others, these must agree, and so must all other
// arguments of the call: a sum in another order has other terms in both places. In another dtype it may be the same
// value.
bool Dataflow::is_replaced(const Values& of, uint32_t given, const Values& other, uint32_t in_place,
                           const Inputs& made_of, bool others_agree) const {
  const auto is_same = [&](uint32_t k) { return tensors_[k].verdict == Verdict::kIdentical; };
  const uint32_t position = of.position_of[given];
  if (dtype_of(of.side.tensor(given)) != dtype_of(other.side.tensor(in_place))) return false;
  if (!is_paired(position) || !is_same(position) || is_paired(other.position_of[in_place])) return false;
  if (std::ranges::find(made_of.found, position) == made_of.found.end()) return false;
  return made_of.found.size() == 1 || (others_agree && std::ranges::all_of(made_of.found, is_same));
}

// The first of the ops above a value that the other side does not have, but for views and copies.
uint32_t Dataflow::first_only_maker(const Values& of, uint32_t record) const {
  std::vector<uint32_t> above = {buffer_of(of, record)};
  std::unordered_set<uint32_t> seen(above.begin(), above.end());
  uint32_t first = kNoTensor;  // record
  for (size_t next = 0; next < above.size() && next < kMostLookedThrough; ++next) {
    const uint32_t at = above[next], position = of.position_of[at];
    if (position == kNoTensor || is_paired(position)) continue;
    std::vector<uint32_t> made_of = part_records(of, at);
    if (tells(of, at)) {
      const uint32_t event = of.side.tensor(at).event;
      if (!tensors_[position].match.trivial && !is_view_op(operator_of(of.side.event(event))))
        first = std::min(first, at);
      for (const Argument& argument : arguments_of(of, event))
        if (argument.record != kNoTensor) made_of.push_back(argument.record);
    }
    for (const uint32_t each : made_of)
      if (seen.insert(each).second) above.push_back(each);
  }
  return first == kNoTensor ? kNoTensor : of.position_of[first];
}

// The op that made a value, looked for behind copies, where the other side has neither it nor what it made.
uint32_t Dataflow::only_maker(const Values& of, uint32_t record) const {
  for (uint32_t at = buffer_of(of, record);;) {
    const uint32_t position = of.position_of[at];
    if (position == kNoTensor || is_paired(position) || !tells(of, at)) return kNoTensor;
    const std::vector<Argument> given = arguments_of(of, of.side.tensor(at).event);
    if (!tensors_[position].match.trivial) return position;
    // An earlier record in a sound file, which also ends a circle in any other.
    if (given.empty() || given.front().record == kNoTensor || given.front().record >= at) return kNoTensor;
    at = buffer_of(of, given.front().record);
  }
}

}  // namespace ttap
