#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <string>
#include <vector>

#include "torch/tables/operators.h"

// The arguments and results of a call as text, and the tensors among them.
namespace ttap::torch_source {

// A defined tensor among the arguments or results, in order.
struct TensorPlace {
  const at::Tensor* tensor;
  uint32_t argument;
  int32_t item;  // in a list; -1: not in one
};

// `x + 1` comes as a tensor that holds the number.
[[gnu::always_inline]] inline bool is_number(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_wrapped_number() && tensor.is_cpu() && tensor.dim() == 0 &&
         tensor.has_storage() && tensor.const_data_ptr() != nullptr;
}

// A list of anything but numbers, or a tuple.
inline bool may_hold_tensors(const c10::IValue& value) {
  return (value.isList() && !value.isIntList() && !value.isDoubleList() && !value.isBoolList()) || value.isTuple();
}

// The tensors of `values`, if there are no lists of any among these: else false, and none.
[[gnu::always_inline]] inline bool collect_lone_tensors(c10::ArrayRef<const c10::IValue> values,
                                                        std::vector<TensorPlace>& places) {
  for (uint32_t i = 0; i < values.size(); ++i) {
    const c10::IValue& value = values[i];
    if (value.isTensor()) {
      if (value.toTensor().defined() && !is_number(value.toTensor())) places.push_back({&value.toTensor(), i, -1});
    } else if (may_hold_tensors(value)) {
      places.clear();
      return false;
    }
  }
  return true;
}

// The type inside an optional: an optional dtype is a dtype.
c10::TypeKind kind_of(const c10::Argument& argument);

// Dtypes, layouts and memory formats come as integers. What one is called in Python's module torch: "float64",
// "strided"; empty when it is a number.
std::string torch_name(int64_t value, c10::TypeKind kind);

// `ReduceOp.SUM`, of a collective; empty for any other object.
std::string reduction_text(const c10::IValue& value);

// Every tensor of `values`; those in lists are kept alive by `held`.
void collect_tensors(c10::ArrayRef<const c10::IValue> values, std::vector<TensorPlace>& places,
                     std::vector<at::Tensor>& held);

// The same for two calls whose texts are the same.
uint64_t signature(c10::ArrayRef<const c10::IValue> values);
inline uint64_t only_tensors_signature(size_t count) { return count + 1; }

// "%0, %1, [1, 0], alpha=2": as Python would call it; what equals its default is left out.
std::string arguments_text(const Operator& op, c10::ArrayRef<const c10::IValue> values);

// "%2", "(%2, %3)", "6.5", "" for nothing; uses are counted on from `first_use`.
std::string results_text(const Operator& op, c10::ArrayRef<const c10::IValue> values, size_t first_use);

}  // namespace ttap::torch_source
