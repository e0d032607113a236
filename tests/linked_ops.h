#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sample_run.h"

// A pass of ops whose values are linked to the calls that made them, for what follows these links.
namespace ttap::test {

class LinkedOps {
 public:
  using Values = std::vector<float>;

  // A value that a call returned, for the calls after it.
  struct Value {
    uint32_t number = 0;
    uint32_t tensor = kNoNumber;
    size_t record = 0;
  };

  struct Argument {
    Value value = {};
    Values outside = {};            // recorded with the call, because no call before it returned it
    bool written = false;           // in place
    bool number = false;            // `outside` has no dimensions
    bool again = false;             // `outside` is what `value` has become by writes to a view of it
    std::string_view path = {};     // default: its position
    std::vector<Value> parts = {};  // of `outside`: what calls wrote into its bytes
  };
  static Argument outside(Values values) { return {.outside = std::move(values)}; }
  static Argument unrecorded() { return {}; }
  static Argument written(Value value) { return {.value = value, .written = true}; }
  static Argument of(Value value) { return {.value = value}; }

  struct Call {
    std::string_view name;
    std::vector<Argument> in = {};
    std::string_view literals = {};  // behind the tensors: ", -inf"
    std::string_view stack = {};
    std::string_view kind = "op";
    uint32_t parent = kNoEvent;
    uint32_t forward = kNoEvent;
    std::string_view notes = {};
    Level level = Level::kFull;  // of the results
  };

  explicit LinkedOps(SamplePass& pass) : pass_(pass) {}

  // One result, or with an empty list of them, none; `last_event` is then the call's.
  Value call(const Call& call, Values result) { return calls(call, {std::move(result)}).front(); }
  std::vector<Value> calls(const Call& call, const std::vector<Values>& results) {
    const uint32_t number = ++calls_[std::string(call.name)];
    last_event = pass_.event(call.name, call.parent, number, call.kind, call.stack);
    std::vector<Use> uses;
    std::vector<std::string> paths;
    paths.reserve(call.in.size() + results.size());
    std::string arguments;
    for (size_t i = 0; i < call.in.size(); ++i) {
      const Argument& in = call.in[i];
      paths.push_back(in.path.empty() ? fmt::format("/{}", i) : std::string(in.path));
      Value value =
          in.outside.empty() ? in.value : record(call.name, number, "in", paths.back(), in.outside, in.number);
      if (in.again) value.tensor = in.value.tensor;
      uses.push_back({"in", paths.back(), value.tensor, value.number, in.written});
      arguments += fmt::format("{}%{}", i == 0 ? "" : ", ", i);
    }
    arguments += call.literals;
    std::vector<Value> made;
    std::string texts;
    for (size_t i = 0; i < results.size(); ++i) {
      paths.push_back(results.size() == 1 ? "" : fmt::format("/{}", i));
      made.push_back(record(call.name, number, "out", paths.back(), results[i], false, call.level));
      texts += fmt::format("{}%{}", i == 0 ? "" : ", ", uses.size());
      uses.push_back({"out", paths.back(), made.back().tensor, made.back().number});
    }
    if (results.size() != 1) texts = fmt::format("({})", texts);
    for (size_t i = 0; i < call.in.size(); ++i)
      for (const Value& part : call.in[i].parts) uses.push_back({"part", paths[i], kNoNumber, part.number});
    pass_.call(last_event,
               {.arguments = arguments, .results = texts, .notes = call.notes, .forward = call.forward, .uses = uses});
    return made;
  }

  // A call that returns the value that it was given, as detach does: there is no record of its own for it.
  void passes_on(std::string_view name, Value value) {
    last_event = pass_.event(name, kNoEvent, ++calls_[std::string(name)], "op", {});
    const std::vector<Use> uses = {{"in", "/0", value.tensor, value.number}, {"out", "", kNoNumber, value.number}};
    pass_.call(last_event, {.arguments = "%0", .results = "%1", .uses = uses});
  }

  uint32_t last_event = kNoEvent;

 private:
  Value record(std::string_view name, uint32_t call, std::string_view role, std::string_view path, const Values& values,
               bool number = false, Level level = Level::kFull) {
    std::vector<int64_t> shape;
    if (!number) shape.push_back(static_cast<int64_t>(values.size()));
    pass_.tensor(name, std::move(shape), values,
                 {.role = role, .path = path, .call = call, .event = last_event, .level = level, .value = ++values_});
    return {values_, values_, records_++};
  }

  SamplePass& pass_;
  std::map<std::string, uint32_t> calls_;
  uint32_t values_ = 0;
  size_t records_ = 0;
};

}  // namespace ttap::test
