#pragma once

#include <string>
#include <string_view>

#include "ttap/api.h"

namespace ttap {

// The name of an event of kind "op" or "kernel": where it ran and what ran, `[scope:][backward:]operator`.
//   aten::relu                              outside any module
//   encoder.layer.0.dense:aten::addmm       within the module encoder.layer.0.dense
//   encoder.layer.0.dense:backward:aten::mm in the backward of what ran there
//   model:triton::triton_poi_fused_relu_0   a kernel; also cpp::…
struct OpName {
  std::string_view scope;  // the module; empty for none
  bool backward = false;
  std::string_view op;  // with its namespace and overload: `aten::add.Tensor`

  bool operator==(const OpName&) const = default;
};

// The parts of a name; views into it. A name without `::` is all operator.
TTAP_API OpName split_op_name(std::string_view name);
TTAP_API std::string join_op_name(const OpName& parts);

// `aten::add.Tensor` → `aten`, `add`, `Tensor`.
struct OperatorParts {
  std::string_view library;
  std::string_view name;
  std::string_view overload;
};
TTAP_API OperatorParts split_operator(std::string_view op);

}  // namespace ttap
