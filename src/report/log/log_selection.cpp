#include "report/log/log_selection.h"

#include <fmt/format.h>

#include "analyze/ops/event_op.h"
#include "analyze/values/similar_keys.h"
#include "report/text/text.h"

namespace ttap {
namespace {

constexpr size_t kSuggestions = 5;
constexpr int kDeepest = 1000;  // Python nests calls no deeper; a file may hold anything

bool is_below(std::string_view name, std::string_view module) {
  return name.starts_with(module) && (name.size() == module.size() || name[module.size()] == '.');
}

std::optional<uint32_t> event_named(const Pass& pass, std::string_view name, uint32_t call) {
  for (size_t i = 0; i < pass.event_count(); ++i)
    if (const EventRecord event = pass.event(i); event.call == call && event.name == name)
      return static_cast<uint32_t>(i);
  return std::nullopt;
}

}  // namespace

bool is_operator(const EventRecord& event) { return event.kind == "op" || event.kind == "kernel"; }
bool is_node(const EventRecord& event) { return event.kind == kNodeKind; }

Result<LogSelection> LogSelection::make(const Pass& pass, const LogOptions& options) {
  LogSelection selection(pass, options);
  if (!options.filter.empty()) {
    auto filter = Pattern::compile(options.filter);
    if (!filter.ok()) {
      Error error = std::move(filter).error();
      error.message = fmt::format("the filter: {}", error.message);
      error.hint = "write a literal '.', '(' or '[' with a backslash before it";
      return error;
    }
    selection.filter_ = std::move(filter).value();
  }
  selection.end_ = pass.event_count();
  if (!options.around || *options.around >= pass.event_count()) return selection;
  const auto beyond = [&](size_t from, int step, size_t limit) {
    size_t left = options.neighbours;
    size_t at = from;
    while (left > 0 && at != limit) {
      at += static_cast<size_t>(step);
      if (at < pass.event_count() && selection.wants(at)) --left;
    }
    return at;
  };
  selection.begin_ = beyond(*options.around, -1, 0);
  selection.end_ = beyond(*options.around, 1, pass.event_count() - 1) + 1;
  return selection;
}

bool LogSelection::in_module(EventRecord event) const {
  for (int level = 0; level < kDeepest; ++level) {
    if (is_below(op_of_event(event).scope, options_->module)) return true;
    if (event.parent >= pass_->event_count()) return false;
    event = pass_->event(event.parent);
  }
  return false;
}

bool LogSelection::wants(size_t index, const EventRecord& event) const {
  if (options_->around == index) return true;
  if (!options_->module.empty() && !in_module(event)) return false;
  if (!filter_ || filter_->found_in(event.name)) return true;
  return is_node(event) && filter_->found_in(read_node_notes(event.notes).target);
}

Result<uint32_t> find_event(const Pass& pass, std::string_view text) {
  if (const auto key = parse_key(text); key.ok()) {
    if (const auto tensor = pass.find(*key))
      if (const uint32_t event = pass.tensor(*tensor).event; event < pass.event_count()) return event;
    if (key->role == "out" && key->path.empty())
      if (const auto event = event_named(pass, key->name, key->call)) return *event;
  }
  if (const auto event = event_named(pass, text, 1)) return *event;
  Error error{.code = ErrorCode::kNotFound,
              .message = fmt::format("no event '{}' in pass {}", printable(text), pass.info().number),
              .path = pass.info().path.string(),
              .hint = "`ttap log --keys` shows the key of each event"};
  const auto similar = similar_keys(pass, text, kSuggestions);
  for (size_t i = 0; i < similar.size(); ++i) {
    const std::string_view before = i == 0 ? "did you mean " : i + 1 == similar.size() ? " or " : ", ";
    if (i == 0) error.hint.clear();
    error.hint += fmt::format("{}{}", before, shell_quoted(printable(similar[i])));
  }
  if (!similar.empty()) error.hint += "?";
  return error;
}

}  // namespace ttap
