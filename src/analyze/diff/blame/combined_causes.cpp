#include "analyze/diff/blame/combined_causes.h"

#include <fmt/format.h>

#include <map>

namespace ttap {

void inherit_from_second(const Side& a, const Side& b, std::span<TensorDiff> tensors) {
  std::map<uint32_t, uint32_t> by_a, by_b;  // where each tensor of a side is compared
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    by_a.try_emplace(tensors[i].match.a, i);
    by_b.try_emplace(tensors[i].match.b, i);
  }
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    TensorDiff& tensor = tensors[i];
    const CombinedValue* combined = tensor.match.combined.get();
    if (combined == nullptr || combined->other == kNoTensor || tensor.cause != Cause::kIntroduced) continue;
    const auto& places = combined->of_a ? by_a : by_b;
    const auto second = places.find(combined->other);
    if (second == places.end() || second->second >= i || !differs(tensors[second->second])) continue;
    const uint32_t source = tensors[second->second].source;
    tensor.cause = Cause::kInherited;
    tensor.source = source == kNoTensor ? second->second : source;
    tensor.reason = fmt::format("differs after {}", to_string((combined->of_a ? a : b).tensor(combined->other).key()));
  }
}

}  // namespace ttap
