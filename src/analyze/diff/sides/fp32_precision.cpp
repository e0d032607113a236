#include "analyze/diff/sides/fp32_precision.h"

#include <algorithm>
#include <array>

#include "analyze/ops/event_op.h"
#include "analyze/ops/op_facts.h"
#include "analyze/ops/role_flow.h"
#include "core/json.h"

namespace ttap {
namespace {

struct Multiplies {
  bool matmul = false;
  bool conv = false;
};

Multiplies by_operator(std::string_view op) {
  constexpr std::array<std::string_view, 8> kMatmul{"mm",      "bmm",    "addmm",  "addbmm",
                                                    "baddbmm", "matmul", "linear", "mv"};
  const std::string_view name = plain_op(op);
  return {.matmul = std::ranges::find(kMatmul, name) != kMatmul.end() || name.find("attention") != name.npos ||
                    name.find("grouped_mm") != name.npos || name.find("addmm") != name.npos,
          .conv = name.find("conv") != name.npos};
}

// A kernel of a compiler says in its name what it was made of.
Multiplies by_kernel(std::string_view name) {
  return {.matmul = name.find("mm") != name.npos || name.find("attention") != name.npos,
          .conv = name.find("conv") != name.npos};
}

Multiplies by_module(std::string_view type) {
  constexpr std::string_view kOwn = "torch.nn.modules.";
  if (!type.starts_with(kOwn)) return {true, true};  // code that may do anything
  type.remove_prefix(kOwn.size());
  return {.matmul = type.starts_with("linear.") || type.starts_with("rnn.") || type.ends_with(".MultiheadAttention") ||
                    type.starts_with("transformer."),
          .conv = type.starts_with("conv.")};
}

}  // namespace

Fp32Precision::Fp32Precision(const Side& side) : side_(side) {
  const Json about = parse_json(side.info().metadata_json);
  const Json::json_pointer place("/program/fp32_precision");
  if (!about.is_object() || !about.contains(place) || !about.at(place).is_object()) return;
  for (const auto& [device, kinds] : about.at(place).items()) {
    if (!kinds.is_object()) continue;
    Names names;
    for (const auto& [kind, precision] : kinds.items())
      if (precision.is_string() && (kind == "matmul" || kind == "conv"))
        (kind == "conv" ? names.conv : names.matmul) = precision.get<std::string>();
    if (!names.matmul.empty() || !names.conv.empty()) by_device_.emplace(device, std::move(names));
  }
}

std::string Fp32Precision::reduced(uint32_t record) const {
  if (by_device_.empty()) return {};
  const TensorRecord made = side_.tensor(record);
  if (dtype_of(made) != DType::kF32 || made.event >= side_.event_count()) return {};
  const auto names = by_device_.find(made.device.substr(0, made.device.find(':')));
  if (names == by_device_.end()) return {};
  const EventRecord event = side_.event(made.event);
  const ModuleFacts* module = is_call_of_operator(event) ? nullptr : side_.module(event.name);
  const Multiplies multiplies = event.kind == "kernel" ? by_kernel(event.name)
                                : is_call_of_operator(event)
                                    ? by_operator(operator_of(event))
                                    : by_module(module == nullptr ? std::string_view() : module->type);
  std::string found = multiplies.conv ? names->second.conv : std::string();
  if (multiplies.matmul && (found.empty() || names->second.matmul == "bf16")) found = names->second.matmul;
  return found;
}

std::optional<DType> Fp32Precision::of(uint32_t record) const {
  if (by_device_.empty() || flow_of(side_.tensor(record).role).input) return std::nullopt;
  const std::string name = reduced(record);
  if (name.empty()) return std::nullopt;
  return name == "bf16" ? DType::kBF16 : DType::kF16;
}

std::string Fp32Precision::name_of(uint32_t record) const {
  std::string name = reduced(record);
  return name.empty() ? "ieee" : name;
}

}  // namespace ttap
