#include "analyze/check/call_facts.h"

#include <algorithm>
#include <charconv>

#include "analyze/check/nonfinite.h"
#include "analyze/ops/event_op.h"
#include "analyze/ops/op_facts.h"

namespace ttap {

std::optional<double> literal_at(std::string_view arguments, size_t position) {
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= arguments.size(); ++i) {
    const char c = i < arguments.size() ? arguments[i] : ',';
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (c != ',' || (depth != 0 && i < arguments.size())) continue;
    if (position-- > 0) {
      begin = i + 1;
      continue;
    }
    std::string_view text = arguments.substr(begin, i - begin);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc{} && end == text.data() + text.size();
    return whole ? std::optional(value) : std::nullopt;
  }
  return std::nullopt;
}

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
