#pragma once

#include <deque>
#include <initializer_list>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyze/diff/sides/side.h"

namespace ttap::test {

// What an op made.
struct Made {
  int bits = 0;
  std::vector<int64_t> shape = {2, 3};
  std::string role = "out";
  std::string path = {};
  double size = 1;  // the statistics are those of values of about this size
  DType dtype = DType::kF32;
  bool exact = false;  // the statistics do not depend on the bits
};

// A value: of an op, or from outside.
struct Value {
  uint32_t number = 0;
};

// A trace made by hand: ops with what they were given and what they made, at level fingerprint. Bits are small numbers;
// values with the same number are the same, 0 are values of which nothing was kept.
class OpSide final : public Side {
 public:
  // With `size`: the values are these whatever the bits, so only their order differs.
  Value outside(int bits, std::vector<int64_t> shape = {2, 3}, double size = 0) {
    return add_value({.bits = bits, .shape = std::move(shape), .size = size == 0 ? 1 : size, .exact = size != 0});
  }
  // A value that the trace did not record.
  Value unrecorded() {
    const Value value = add_value({});
    values_[value.number].hidden = true;
    return value;
  }

  uint32_t module(std::string name, uint32_t parent = kNoEvent) { return add_event(std::move(name), "module", parent); }
  void module_out(uint32_t event, Made made) {
    values_.push_back({.made = std::move(made)});
    add_record(event, "out", "", values_.back().made);
  }

  Value op(const std::string& name, std::initializer_list<Value> given, Made made = {}) {
    return call("op", name, given, {std::move(made)}).front();
  }
  Value kernel(const std::string& name, std::initializer_list<Value> given, Made made = {}) {
    made.role = "after";
    if (made.path.empty()) made.path = "/out_ptr0";
    return call("kernel", name, given, {std::move(made)}).front();
  }
  std::vector<Value> call(std::string kind, const std::string& name, std::initializer_list<Value> given,
                          std::initializer_list<Made> made) {
    const uint32_t event = add_event(name, std::move(kind), inside);
    auto& uses = uses_[event];
    uint32_t argument = 0;
    for (const Value each : given) {
      Kept& value = values_[each.number];
      const std::string& path = texts_.emplace_back("/" + std::to_string(argument++));
      if (value.record == kNoNumber && !value.hidden) value.record = add_record(event, "in", path, value.made);
      // `add_` writes to its first argument.
      const bool written = argument == 1 && name.substr(0, name.find('.')).ends_with('_');
      uses.push_back({.role = "in", .path = path, .tensor = each.number, .record = value.record, .written = written});
    }
    std::vector<Value> results;
    for (const Made& each : made) {
      const Value value = add_value(each);
      Kept& kept = values_[value.number];
      kept.record = add_record(event, kept.made.role, kept.made.path, kept.made);
      uses.push_back({.role = kept.made.role, .path = kept.made.path, .tensor = value.number, .record = kept.record});
      results.push_back(value);
    }
    events_[event].use_count = tells_uses ? static_cast<uint32_t>(uses.size()) : 0;
    events_[event].returned = tells_uses;
    return results;
  }

  // Gives an argument of the last call another name.
  void rename_argument(size_t argument, std::string path) {
    UseRecord& use = uses_.back()[argument];
    use.path = texts_.emplace_back(std::move(path));
    if (tensors_[use.record].role == "in" && tensors_[use.record].event + 1 == events_.size())
      tensors_[use.record].path = use.path;
  }

  uint32_t inside = kNoEvent;  // the module event around the next ops
  bool tells_uses = true;

  size_t tensor_count() const override { return tensors_.size(); }
  TensorRecord tensor(size_t index) const override { return tensors_[index]; }
  size_t event_count() const override { return events_.size(); }
  EventRecord event(size_t index) const override { return events_[index]; }
  UseRecord use(size_t event, size_t index) const override { return uses_[event][index]; }
  Result<SideBytes> read(size_t) const override {
    return Error{.code = ErrorCode::kNotRecorded, .message = "it only has records"};
  }
  const PassInfo& info() const override { return info_; }
  std::string place() const override { return "a trace"; }

 private:
  struct Kept {
    Made made;
    uint32_t record = kNoNumber;
    bool hidden = false;
  };

  Value add_value(Made made) {
    values_.push_back({.made = std::move(made)});
    return {static_cast<uint32_t>(values_.size() - 1)};
  }

  uint32_t add_event(std::string name, std::string kind, uint32_t parent) {
    EventRecord event;
    event.name = texts_.emplace_back(std::move(name));
    event.kind = texts_.emplace_back(std::move(kind));
    event.call = ++calls_[std::string(event.name)];
    event.parent = parent;
    events_.push_back(event);
    uses_.emplace_back();
    return static_cast<uint32_t>(events_.size() - 1);
  }

  uint32_t add_record(uint32_t event, std::string_view role, std::string_view path, const Made& made) {
    TensorRecord record;
    record.name = events_[event].name;
    record.call = events_[event].call;
    record.role = role;
    record.path = path;
    record.event = event;
    record.shape = shapes_.emplace_back(made.shape);
    record.dtype = made.dtype;
    record.level = Level::kFingerprint;
    record.has_fingerprint = made.bits != 0;
    record.fingerprint.hash = {static_cast<uint64_t>(made.bits) * 1000003, static_cast<uint64_t>(made.bits)};
    Stats& stats = record.fingerprint.stats;
    // Rounding: bits of the same size differ in the tenth digit.
    const double size = made.exact ? made.size : made.size * (1 + 1e-10 * made.bits);
    stats.count = 1;
    for (const int64_t length : made.shape) stats.count *= static_cast<uint64_t>(length);
    stats.min = -size;
    stats.max = stats.max_abs = size;
    stats.min_abs_nonzero = size / 8;
    stats.mean = size / 3;
    stats.l1 = 4 * size;
    stats.l2 = 2 * size;
    tensors_.push_back(record);
    return static_cast<uint32_t>(tensors_.size() - 1);
  }

  std::deque<std::string> texts_;
  std::deque<std::vector<int64_t>> shapes_;
  std::deque<Kept> values_;
  std::vector<EventRecord> events_;
  std::vector<std::vector<UseRecord>> uses_;
  std::vector<TensorRecord> tensors_;
  std::unordered_map<std::string, uint32_t> calls_;
  PassInfo info_;
};

}  // namespace ttap::test
