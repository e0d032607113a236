#include "report/check/origin.h"

#include <algorithm>

#include "analyze/check/call_facts.h"
#include "analyze/ops/event_op.h"
#include "report/log/plain_call.h"
#include "report/log/stack_text.h"
#include "report/text/text.h"

namespace ttap {
namespace {

// Of a program without frames of its own, the innermost.
std::vector<std::string> program_frames(std::string_view stack) {
  std::vector<std::string> own;
  std::vector<std::string> all;
  while (!stack.empty()) {
    const std::string_view frame = stack.substr(0, stack.find('\n'));
    stack.remove_prefix(std::min(frame.size() + 1, stack.size()));
    all.emplace_back(frame);
    if (is_user_frame(frame)) own.emplace_back(frame);
  }
  if (own.empty() && !all.empty()) own.push_back(all.back());
  std::ranges::reverse(own);
  return own;
}

// The module that an event ran in, by its name or by the events around it.
std::string module_of(const Pass& pass, const EventRecord& event) {
  if (is_call_of_operator(event))
    if (std::string scope = op_of_event(event).scope; !scope.empty()) return scope;
  for (uint32_t at = event.parent; at < pass.event_count(); at = pass.event(at).parent)
    if (const EventRecord parent = pass.event(at); parent.kind == "module") return std::string(parent.name);
  return "";
}

std::optional<DescribedOrigin::Call> describe_call(const Pass& pass, uint32_t number) {
  if (number >= pass.event_count()) return std::nullopt;
  const EventRecord event = pass.event(number);
  return DescribedOrigin::Call{.name = std::string(event.name),
                               .number = event.call,
                               .backward = op_of_event(pass, number).backward,
                               .module = module_of(pass, event),
                               .text = plain_call(pass, number),
                               .stack = program_frames(event.stack)};
}

DescribedArgument describe_argument(const SelectedPass& selected, const Pass& pass, const UseRecord& use) {
  DescribedArgument described{.path = std::string(use.path), .written = use.written};
  if (use.record >= pass.tensor_count()) return described;
  const TensorRecord record = pass.tensor(use.record);
  described.tensor = checked_tensor(selected, pass, use.record);
  if (const auto stats = stats_of(pass, use.record); stats.ok()) described.stats = *stats;
  described.finite =
      !can_be_nonfinite(record.dtype) || (described.stats && described.stats->finite() == described.stats->count);
  if (record.role != "in" && record.event < pass.event_count())
    described.from = to_string(Key{.name = std::string(record.name), .call = record.call});
  return described;
}

Nonfinite count(const Pass& pass, size_t tensor) {
  const auto stats = stats_of(pass, tensor);
  if (!stats.ok()) return {.tensor = tensor};
  return {tensor, stats->count, stats->nan, stats->pos_inf, stats->neg_inf};
}

DescribedCollective describe_collective(const CheckedStep& step, size_t part, const CollectiveEvidence& evidence) {
  const CollectiveCall& call = *step.origins->collective_at(part, evidence.result.event);
  DescribedCollective described{
      .op = call.op, .group = call.group, .number = call.number, .text = call_text(call), .problem = evidence.problem};
  for (const Contribution& from : evidence.contributions) {
    const auto rank = from.part ? std::optional(step.origins->ranks()[*from.part].rank) : std::nullopt;
    described.contributions.push_back(
        {from.group_rank, rank, from.known, from.known && !from.nan && !from.inf, from.missing});
  }
  return described;
}

// Of a collective, what each rank gave to it; of any other call, its arguments.
std::vector<DescribedArgument> describe_arguments(const CheckedStep& step, OriginPlace place, const Origin& origin) {
  const Pass& pass = *step.passes[place.part];
  std::vector<DescribedArgument> described;
  for (const CollectiveEvidence& each : origin.collectives)
    for (const Contribution& from : each.contributions)
      for (const ContributedTensor& given : from.tensors) {
        described.push_back(describe_argument(step.selected[*from.part], *step.passes[*from.part],
                                              {.role = "in", .path = given.path, .record = given.record}));
        described.back().rank = step.origins->ranks()[*from.part].rank;
      }
  if (!origin.collectives.empty() && !described.empty()) return described;
  const EventRecord event = pass.event(origin.event);
  for (size_t i = 0; i < event.use_count; ++i)
    if (const UseRecord use = pass.use(origin.event, i); use.role == "in")
      described.push_back(describe_argument(step.selected[place.part], pass, use));
  return described;
}

DescribedOrigin describe_origin(const CheckedStep& step, OriginPlace place) {
  place = step.origins->root_of(place);
  const Origin& origin = step.origins->of(place.part).all()[place.origin];
  const SelectedPass& selected = step.selected[place.part];
  const Pass& pass = *step.passes[place.part];
  DescribedOrigin described{.kind = origin.kind,
                            .fault = origin.is_fault(),
                            .harmless = origin.harmless,
                            .heirs = origin.heirs,
                            .tensor = checked_tensor(selected, pass, count(pass, origin.tensor)),
                            .call = describe_call(pass, origin.event)};
  for (const CollectiveEvidence& each : origin.collectives)
    described.collectives.push_back(describe_collective(step, place.part, each));
  if (origin.first_reader) described.first_reader = to_string(pass.tensor(*origin.first_reader).key());
  if (!described.call) return described;
  described.forward = describe_call(pass, pass.event(origin.event).forward);
  described.arguments = describe_arguments(step, place, origin);
  if (origin.kind != OriginKind::kCameIn && origin.kind != OriginKind::kUninitialised)
    described.hints = origin_hints(facts_of_call(pass, origin.event, origin.tensor));
  return described;
}

}  // namespace

OriginReport report_origin(const CheckedStep& step, OriginPlace first) {
  const std::vector<Origin>& all = step.origins->of(first.part).all();
  OriginReport origin_report{.first = describe_origin(step, first)};
  const Origin& origin = all[first.origin];
  if (origin.inf_from) origin_report.inf_from = describe_origin(step, {first.part, *origin.inf_from});
  if (origin.became_nan) origin_report.became_nan = describe_origin(step, {first.part, *origin.became_nan});
  const Pass& pass = *step.passes[first.part];
  for (size_t i = 0; i < all.size(); ++i)
    if (i != first.origin)
      origin_report.others.push_back({all[i].kind, all[i].is_fault(), all[i].harmless, all[i].heirs,
                                      checked_tensor(step.selected[first.part], pass, count(pass, all[i].tensor))});
  for (const Spread& spread : step.origins->spread_of(first)) {
    const auto rank_of = [&](size_t part) { return step.origins->ranks()[part].rank; };
    const CollectiveCall& call = *step.origins->collective_at(spread.from, spread.event);
    DescribedSpread described{.op = call.op,
                              .group = call.group,
                              .number = call.number,
                              .text = call_text(call),
                              .from = rank_of(spread.from)};
    for (const size_t part : spread.to) described.to.push_back(rank_of(part));
    origin_report.spread.push_back(std::move(described));
  }
  return origin_report;
}

}  // namespace ttap
