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
std::vector<std::string> told_frames(std::string_view stack) {
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

std::optional<ToldOrigin::Call> tell_call(const Pass& pass, uint32_t number) {
  if (number >= pass.event_count()) return std::nullopt;
  const EventRecord event = pass.event(number);
  return ToldOrigin::Call{.name = std::string(event.name),
                          .number = event.call,
                          .backward = op_of_event(pass, number).backward,
                          .module = module_of(pass, event),
                          .text = plain_call(pass, number),
                          .stack = told_frames(event.stack)};
}

ToldArgument tell_argument(const SelectedPass& selected, const Pass& pass, const UseRecord& use) {
  ToldArgument told{.path = std::string(use.path), .written = use.written};
  if (use.record >= pass.tensor_count()) return told;
  const TensorRecord record = pass.tensor(use.record);
  told.tensor = checked_tensor(selected, pass, use.record);
  if (const auto stats = stats_of(pass, use.record); stats.ok()) told.stats = *stats;
  told.finite = !can_be_nonfinite(record.dtype) || (told.stats && told.stats->finite() == told.stats->count);
  if (record.role != "in" && record.event < pass.event_count())
    told.from = to_string(Key{.name = std::string(record.name), .call = record.call});
  return told;
}

Nonfinite count(const Pass& pass, size_t tensor) {
  const auto stats = stats_of(pass, tensor);
  if (!stats.ok()) return {.tensor = tensor};
  return {tensor, stats->count, stats->nan, stats->pos_inf, stats->neg_inf};
}

ToldOrigin tell_origin(const SelectedPass& selected, const Pass& pass, const Origin& origin) {
  ToldOrigin told{.kind = origin.kind,
                  .fault = origin.is_fault(),
                  .harmless = origin.harmless,
                  .heirs = origin.heirs,
                  .tensor = checked_tensor(selected, pass, count(pass, origin.tensor)),
                  .call = tell_call(pass, origin.event)};
  if (origin.first_reader) told.first_reader = to_string(pass.tensor(*origin.first_reader).key());
  if (!told.call) return told;
  const EventRecord event = pass.event(origin.event);
  told.forward = tell_call(pass, event.forward);
  for (size_t i = 0; i < event.use_count; ++i)
    if (const UseRecord use = pass.use(origin.event, i); use.role == "in")
      told.arguments.push_back(tell_argument(selected, pass, use));
  if (origin.kind != OriginKind::kCameIn && origin.kind != OriginKind::kUninitialised)
    told.hints = origin_hints(facts_of_call(pass, origin.event, origin.tensor));
  return told;
}

}  // namespace

OriginStory tell_story(const SelectedPass& selected, const Pass& pass, const Origins& origins, size_t first) {
  const std::vector<Origin>& all = origins.all();
  OriginStory story{.first = tell_origin(selected, pass, all[first])};
  if (const auto from = all[first].inf_from) story.inf_from = tell_origin(selected, pass, all[*from]);
  if (const auto to = all[first].became_nan) story.became_nan = tell_origin(selected, pass, all[*to]);
  for (size_t i = 0; i < all.size(); ++i)
    if (i != first)
      story.others.push_back({all[i].kind, all[i].is_fault(), all[i].harmless, all[i].heirs,
                              checked_tensor(selected, pass, count(pass, all[i].tensor))});
  return story;
}

}  // namespace ttap
