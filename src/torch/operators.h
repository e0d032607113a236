#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/record_function.h>
#include <c10/core/DispatchKeySet.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/text_table.h"

namespace ttap::torch_source {

// What is known of one operator of the dispatcher, once per trace.
struct Operator {
  struct Argument {
    TextId path = 0;  // `/0`, or `/out` where it goes by name
    bool written = false;
  };

  std::string name;       // aten::add
  std::string overload;   // Tensor
  std::string full_name;  // aten::add.Tensor
  uint32_t number = 0;
  bool dispatched = false;  // false: a range that somebody marked (profiler, autograd engine), no operator
  std::optional<c10::FunctionSchema> schema;
  std::vector<Argument> arguments;
  bool writes = false;             // to any argument
  bool returns_first = false;      // its result is its written first argument
  bool result_comes_later = false;  // a collective that is waited for by another operator
  bool is_wait = false;            // that operator
  bool is_c10d = false;            // c10d:: collectives, whose result is a Work
  bool fills_nothing = false;      // empty(): whatever is in the memory

  // For visibility: composites are looked through, unless the backend at hand has a kernel of its own.
  bool is_composite = false;
  std::optional<c10::OperatorHandle> handle;
  c10::DispatchKey decided_for = c10::DispatchKey::Undefined;
  bool decided = false;

  std::unordered_map<uint64_t, TextId> argument_texts;  // by signature
};

// Finds the operator of a RecordFunction without copying its schema or name.
class OperatorTable {
 public:
  explicit OperatorTable(TextTable& texts) : texts_(texts) {}
  Operator& of(const at::RecordFunction& function);
  // By name, for what is no RecordFunction.
  size_t size() const { return operators_.size(); }

 private:
  std::unique_ptr<Operator> make(const at::RecordFunction& function, const char* name, const char* overload);

  TextTable& texts_;
  // By where the schema keeps its name: an operator that is registered anew may get the place of another one, so the
  // names are compared too.
  std::unordered_map<const char*, Operator*> by_name_;
  std::vector<std::unique_ptr<Operator>> operators_;
};

// Whether a dispatch mode would see the operators that this one calls, and not itself: it is composed of others, or a
// layer above autograd (autocast, a transform of torch.func) calls it again. `keys` are those of its arguments and of
// the thread.
bool is_looked_through(Operator& op, c10::DispatchKeySet keys);

}  // namespace ttap::torch_source
