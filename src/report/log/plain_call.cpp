#include "report/log/plain_call.h"

#include <charconv>

#include "core/op_name.h"
#include "report/log/event_text.h"
#include "report/log/node_text.h"
#include "report/text/text.h"

namespace ttap {
namespace {

void append_filled(std::string& line, const Pass& pass, uint32_t event, size_t uses, std::string_view text) {
  while (!text.empty()) {
    const size_t percent = text.find('%');
    line += printable(text.substr(0, percent));
    if (percent == std::string_view::npos) return;
    text.remove_prefix(percent + 1);
    size_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || number >= uses) {
      line += '%';
      if (text.starts_with('%')) text.remove_prefix(1);
      continue;
    }
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    const UseRecord use = pass.use(event, number);
    use.record < pass.tensor_count() ? append_type(line, pass.tensor(use.record)) : void(line += 't');
  }
}

}  // namespace

std::string plain_call(const Pass& pass, uint32_t event) {
  const EventRecord call = pass.event(event);
  std::string line = printable(call.kind == kNodeKind ? called_text(read_node_notes(call.notes))
                                                      : std::string(split_op_name(call.name).op));
  if (!call.returned) return line;
  line += '(';
  append_filled(line, pass, event, call.use_count, call.arguments);
  line += ')';
  if (call.results.empty()) return line;
  line += " -> ";
  append_filled(line, pass, event, call.use_count, call.results);
  return line;
}

}  // namespace ttap
