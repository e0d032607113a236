#include "analyze/diff/match/ops/op_list.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "analyze/ops/event_op.h"
#include "analyze/ops/op_facts.h"
#include "core/mix64.h"
#include "core/op_name.h"

namespace ttap {
namespace {

uint64_t hash_of(std::string_view text) { return mix64(std::hash<std::string_view>()(text)) | 1; }

// `add_` works in place and `_softmax` is what `softmax` calls. `__and__` is a name as it is.
std::string_view plain_name(std::string_view name) {
  if (name.ends_with("__")) return name;
  if (name.size() > 1 && name.ends_with('_')) name.remove_suffix(1);
  if (name.size() > 1 && name.starts_with('_')) name.remove_prefix(1);
  return name;
}

// Without the number that tells one kernel of a program from the next.
std::string_view kernel_name(std::string_view name) {
  const size_t end = name.find_last_not_of("0123456789");
  return end != std::string_view::npos && name[end] == '_' && end > 0 ? name.substr(0, end) : name;
}

uint64_t shape_hash(std::span<const int64_t> shape) {
  uint64_t hash = 1;
  for (const int64_t size : shape) hash = mix64(hash + static_cast<uint64_t>(size) + 1);
  return hash;
}

uint64_t bits_of(const TensorRecord& record) {
  if (!record.has_fingerprint || record.fingerprint.stats.count == 0) return 0;
  const auto dtype = static_cast<uint64_t>(record.true_dtype.value_or(record.dtype));
  return mix64(record.fingerprint.hash.low ^ mix64(record.fingerprint.hash.high + dtype)) | 1;
}

bool is_real_value(const TensorRecord& record) {
  const DTypeKind kind = dtype_info(record.true_dtype.value_or(record.dtype)).kind;
  return kind == DTypeKind::kFloat || kind == DTypeKind::kComplex || !record.group.empty();
}

bool is_plain_value(const TensorRecord& record) {
  const Stats& stats = record.fingerprint.stats;
  return stats.count <= 1 || !(stats.min < stats.max);
}

}  // namespace

bool is_op(const EventRecord& event) {
  if (event.kind == kNodeKind) return true;
  return (event.kind == "op" || event.kind == "kernel") && event.name.find("::") != std::string_view::npos;
}

bool has_ops(const Side& side) {
  for (size_t i = 0; i < side.event_count(); ++i)
    if (is_op(side.event(i))) return true;
  return false;
}

uint64_t content_of(const TensorRecord& record) {
  constexpr uint64_t kFewest = 16;
  const Stats& stats = record.fingerprint.stats;
  if (!record.has_fingerprint || stats.count < kFewest || !(stats.min < stats.max)) return 0;
  uint64_t hash = mix64(stats.count + mix64(stats.zeros + static_cast<uint64_t>(record.dtype)));
  for (const double exact : {stats.min, stats.max, stats.min_abs_nonzero})
    hash = mix64(hash + std::bit_cast<uint64_t>(exact));
  return hash | 1;
}

bool is_for_results(std::string_view path) { return path.starts_with("/out"); }

bool leaves_undefined(const EventRecord& event) {
  if (event.kind != "op" && event.kind != kNodeKind) return false;
  return leaves_uninitialised(operator_of(event));
}

bool is_placeholder(const EventRecord& event) { return is_given_node(event); }

uint64_t operator_name_hash(std::string_view name) {
  name = plain_name(name);
  // As Python calls them in a graph before it is lowered.
  constexpr std::string_view kNative = "native_";
  if (name.starts_with(kNative)) name.remove_prefix(kNative.size());
  if (name == "iadd") name = "add";
  if (name == "isub") name = "sub";
  if (name == "imul") name = "mul";
  if (name == "truediv" || name == "itruediv") name = "div";
  // All of them give the elements another shape, and which is called depends on strides only.
  if (name == "unsafe_view" || name == "reshape" || name == "reshape_alias") name = "view";
  return hash_of(name);
}

OpList::OpList(const Side& side) {
  std::vector<uint32_t> op_of_event(side.event_count(), kNoOp);
  for (uint32_t i = 0; i < side.event_count(); ++i) {
    const EventRecord event = side.event(i);
    if (!is_op(event)) continue;
    op_of_event[i] = static_cast<uint32_t>(ops_.size());
    event.kind == kNodeKind ? add_node(side, i) : add_call(event, i);
  }
  describe_tensors(side, op_of_event);
  describe_uses(side);
}

void OpList::add_call(const EventRecord& event, uint32_t index) {
  const OpName name = split_op_name(event.name);
  const OperatorParts parts = split_operator(name.op);
  const bool kernel = event.kind == "kernel";
  ops_.push_back({.event = index,
                  .name = kernel ? hash_of(kernel_name(parts.name)) : operator_name_hash(parts.name),
                  .overload = hash_of(name.op),
                  .scope = name.scope,
                  .backward = name.backward,
                  .kernel = kernel,
                  .same = !kernel && is_same_op(name.op),
                  .undefined = !kernel && leaves_uninitialised(name.op),
                  .constant = !kernel && makes_from_nothing(name.op),
                  .copies = !kernel && leaves_values_alone(name.op)});
}

void OpList::add_node(const Side& side, uint32_t index) {
  const EventOp called = op_of_event(side, index);
  const std::string_view name = split_operator(called.op).name;
  ops_.push_back({.event = index,
                  .name = operator_name_hash(name),
                  .overload = hash_of(called.op),
                  .scope = *texts_.insert(called.scope).first,
                  .backward = called.backward,
                  .given = is_given_node(side.event(index)),
                  .same = is_same_op(called.op),
                  .undefined = leaves_uninitialised(called.op),
                  .constant = makes_from_nothing(called.op),
                  .copies = leaves_values_alone(called.op)});
}

void OpList::describe_tensors(const Side& side, std::span<const uint32_t> op_of_event) {
  const size_t count = side.tensor_count();
  op_of_.assign(count, kNoOp);
  position_of_.assign(count, kNoTensor);
  bits_.resize(count);
  shape_.resize(count);
  elements_.resize(count);
  content_.resize(count);
  plain_.resize(count);
  real_.resize(count);
  // Of op records only; what they are, before they are put in the order of their ops.
  std::vector<uint32_t> records;
  std::vector<bool> is_value;
  for (uint32_t i = 0; i < count; ++i) {
    const TensorRecord record = side.tensor(i);
    if (record.event >= op_of_event.size() || op_of_event[record.event] == kNoOp) continue;
    const uint32_t at = op_of_event[record.event];
    Op& op = ops_[at];
    const bool value = record.role != "in" && !op.given;
    op_of_[i] = at;
    const bool undefined = value ? op.undefined : is_for_results(record.path);
    bits_[i] = undefined ? 0 : bits_of(record);
    shape_[i] = shape_hash(record.shape);
    elements_[i] = element_count({.shape = record.shape});
    content_[i] = undefined ? 0 : content_of(record);
    plain_[i] = bits_[i] != 0 && is_plain_value(record);
    real_[i] = is_real_value(record);
    if (value) {
      op.shape = mix64(op.shape + shape_[i]);
      op.dtype = mix64(op.dtype + static_cast<uint64_t>(record.true_dtype.value_or(record.dtype)) + 1);
    }
    ++(value ? op.value_count : op.outside_count);
    records.push_back(i);
    is_value.push_back(value);
  }
  uint32_t values = 0, outside = 0;
  for (Op& op : ops_) {
    op.first_value = values;
    op.first_outside = outside;
    values += op.value_count;
    outside += op.outside_count;
    op.value_count = op.outside_count = 0;
  }
  values_.resize(values);
  outside_.resize(outside);
  for (size_t k = 0; k < records.size(); ++k) {
    Op& op = ops_[op_of_[records[k]]];
    if (is_value[k]) {
      position_of_[records[k]] = op.value_count;
      values_[op.first_value + op.value_count++] = records[k];
    } else {
      outside_[op.first_outside + op.outside_count++] = records[k];
    }
  }
}

void OpList::describe_uses(const Side& side) {
  for (Op& op : ops_) {
    op.first_input = static_cast<uint32_t>(inputs_.size());
    op.first_part = static_cast<uint32_t>(parts_.size());
    const uint32_t uses = side.event(op.event).use_count;
    for (uint32_t k = 0; k < uses; ++k) {
      const UseRecord use = side.use(op.event, k);
      if (use.role == "part" && use.record < bits_.size()) {
        parts_.push_back(use.record);
        ++op.part_count;
      }
      if (use.role != "in" || is_for_results(use.path) || op.given) continue;
      input_paths_.push_back(hash_of(use.path));
      inputs_.push_back(use.record < bits_.size() ? use.record : kNoTensor);
      ++op.input_count;
    }
    const std::span<const uint32_t> given = inputs(op);
    if (op.value_count != 1 || given.empty() || given.front() == kNoTensor) {
      op.same = false;
      continue;
    }
    const uint32_t value = values_[op.first_value];
    op.casts = op.copies && !op.kernel && shape_[value] == shape_[given.front()] &&
               side.tensor(given.front()).dtype != side.tensor(value).dtype;
    if (op.copies && side.tensor(given.front()).dtype != side.tensor(value).dtype) op.copies = false;
    // A copy by its bits, whatever it is called. A plain value may come out of anything.
    if (op.copies || bits_[value] == 0 || plain_[value]) continue;
    for (const uint32_t input : given) op.copies |= input != kNoTensor && bits_[input] == bits_[value];
  }
}

}  // namespace ttap
