#include "analyze/check/call_facts.h"

#include "analyze/check/nonfinite.h"
#include "analyze/ops/event_op.h"
#include "analyze/ops/op_facts.h"

namespace ttap {

CallFacts facts_of_call(const Pass& pass, uint32_t event, size_t tensor) {
  const EventRecord call = pass.event(event);
  const TensorRecord record = pass.tensor(tensor);
  CallFacts facts{.op = operator_of(call),
                  .arguments = {},
                  .result = {record.path, record.dtype, {}},
                  .second_literal = literal_at(call.arguments, 1)};
  if (const auto stats = stats_of(pass, tensor); stats.ok()) facts.result.stats = *stats;
  for (size_t i = 0; i < call.use_count; ++i) {
    const UseRecord use = pass.use(event, i);
    if (use.role != "in" || use.record >= pass.tensor_count()) continue;
    if (use.written && overwrites_what_it_writes(facts.op)) continue;
    if (const auto stats = stats_of(pass, use.record); stats.ok())
      facts.arguments.push_back({use.path, pass.tensor(use.record).dtype, *stats});
  }
  return facts;
}

}  // namespace ttap
