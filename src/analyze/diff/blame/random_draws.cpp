#include "analyze/diff/blame/random_draws.h"

#include <fmt/format.h>

#include "analyze/diff/blame/cause.h"
#include "analyze/ops/event_op.h"
#include "analyze/ops/op_facts.h"

namespace ttap {

bool is_random_draw(const Side& side, uint32_t tensor) {
  if (tensor == kNoTensor) return false;
  const TensorRecord record = side.tensor(tensor);
  return !is_input(record.role) && record.event < side.event_count() && is_call_of_operator(side.event(record.event)) &&
         draws_random_numbers(operator_of(side.event(record.event)));
}

void blame_extra_draws(const Side& a, const Side& b, std::span<TensorDiff> tensors) {
  const auto draws = [&](const TensorDiff& tensor) {
    return is_random_draw(a, tensor.match.a) || is_random_draw(b, tensor.match.b);
  };
  uint32_t before = kNoTensor;  // the last draw
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    TensorDiff& tensor = tensors[i];
    if (!draws(tensor)) continue;
    // A kernel of a compiler's may draw what the other side drew in an operator of its own.
    const bool both_draw = is_random_draw(a, tensor.match.a) && is_random_draw(b, tensor.match.b);
    if (tensor.cause == Cause::kIntroduced && before != kNoTensor && both_draw) {
      TensorDiff& extra = tensors[before];
      const bool only_b = extra.match.a == kNoTensor;
      if (only_b || extra.match.b == kNoTensor) {
        extra.cause = Cause::kIntroduced;
        extra.reason =
            fmt::format("only {} draws these random numbers, so every draw after it is another", only_b ? "B" : "A");
        tensor.cause = Cause::kInherited;
        tensor.source = before;
        tensor.reason = "the state of the random generator was another";
      }
    }
    before = i;
  }
}

}  // namespace ttap
