#include "analyze/diff/blame/combined_causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace ttap {

void inherit_from_second(const Side& a, const Side& b, std::span<TensorDiff> tensors) {
  if (std::ranges::none_of(tensors, [](const TensorDiff& tensor) { return tensor.match.is_made(); })) return;
  std::map<uint32_t, uint32_t> by_a, by_b;  // where each tensor of a side is compared
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    by_a.try_emplace(tensors[i].match.a, i);
    by_b.try_emplace(tensors[i].match.b, i);
  }
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    TensorDiff& tensor = tensors[i];
    for (const auto& [side, made, places] :
         {std::tuple(&a, tensor.match.made_a.get(), &by_a), std::tuple(&b, tensor.match.made_b.get(), &by_b)}) {
      if (made == nullptr || tensor.cause != Cause::kIntroduced) continue;
      for (const MadeValue::Part& part : std::span(made->parts).subspan(1)) {
        const auto second = places->find(part.tensor);
        if (second == places->end() || second->second >= i || !differs(tensors[second->second])) continue;
        const uint32_t source = tensors[second->second].source;
        tensor.cause = Cause::kInherited;
        tensor.source = source == kNoTensor ? second->second : source;
        tensor.reason = fmt::format("differs after {}", to_string(side->tensor(part.tensor).key()));
        break;
      }
    }
  }
}

}  // namespace ttap
