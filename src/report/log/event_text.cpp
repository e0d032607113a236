#include "report/log/event_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyze/ops/role_flow.h"
#include "core/op_name.h"
#include "report/log/argument_text.h"
#include "report/log/log_selection.h"
#include "report/log/node_text.h"
#include "report/text/text.h"

namespace ttap {
namespace {

constexpr int kDigits = 4;

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7F; });
}

// `/in_ptr0` → in_ptr0
std::string_view argument_of(std::string_view path) { return path.starts_with('/') ? path.substr(1) : path; }

}  // namespace

void append_type(std::string& text, const TensorRecord& tensor) {
  text += dtype_name(tensor.true_dtype.value_or(tensor.dtype));
  text += '[';
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    fmt::format_to(std::back_inserter(text), "{}{}", i == 0 ? "" : ", ", tensor.shape[i]);
  text += ']';
}

std::string short_hash(const Hash128& hash) { return fmt::format("{:08x}", hash.high >> 32); }

void EventText::write_plain(std::string_view text) { is_plain(text) ? out_.write(text) : out_.write(printable(text)); }

void EventText::color(Style style) {
  if (!out_.terminal().color) return;
  out_.write(style == Style::kPlain ? kResetEscape : escape_of(style));
}

void EventText::next_remark() {
  if (!remarked_) {
    out_.write("  ");
    color(Style::kDim);
    out_.write("# ");
  } else {
    out_.write("; ");
  }
  remarked_ = true;
}

void EventText::read_values(const EventRecord& event, uint32_t index) {
  values_.clear();
  for (size_t i = 0; i < event.use_count; ++i) {
    const UseRecord use = pass_.use(index, i);
    if (use.role == "part") break;  // so are all that follow
    Value& value = values_.emplace_back(Value{use, {}});
    if (value.use.record < pass_.tensor_count()) value.record = pass_.tensor(value.use.record);
  }
  for (Value& value : values_)
    value.again = value.use.role == "after" && value.record && std::ranges::any_of(values_, [&](const Value& other) {
                    return other.use.role == "out" && other.use.record == value.use.record;
                  });
  if (event.use_count > 0) return;
  if (!tensors_) tensors_.emplace(pass_, EventTensors::Of::kEventsWithoutUses);
  for (const auto& [_, tensor] : tensors_->of(index)) {
    const TensorRecord record = pass_.tensor(tensor);
    if (record.name != event.name) continue;  // the same under another name of a shared module
    values_.push_back({{.role = record.role, .path = record.path, .record = tensor}, record});
  }
  // Parameters are recorded first, and stand behind the arguments.
  std::stable_partition(values_.begin(), values_.end(),
                        [](const Value& value) { return !is_parameter(value.use.role); });
}

void EventText::write(const EventRecord& event, const Line& line) {
  read_values(event, line.index);
  notes_ = event.notes.empty() ? EventNotes{} : read_notes(event.notes);
  remarked_ = false;
  const bool kernel = event.kind == "kernel";
  node_ = is_node(event) ? read_node_notes(event.notes) : NodeNotes{};
  if (is_node(event)) {
    write_node(event);
  } else {
    is_operator(event) ? write_operator(event, line) : write_module(event);
  }
  write_comment(event, line, kernel);
  if (remarked_) color(Style::kPlain);
  out_.write("\n");
  if (kernel) write_kernel_values(line.margin);
}

std::string_view EventText::class_of(const EventRecord& event) const {
  if (!notes_.class_name.empty() || event.kind != "module" || options_.modules == nullptr) return notes_.class_name;
  const auto known = options_.modules->find(event.name);
  return known == options_.modules->end() ? std::string_view() : known->second.class_name();
}

void EventText::write_module(const EventRecord& event) {
  color(Style::kCyan);
  if (event.kind == "module") {
    out_.write("[nn.Mod]");
  } else {
    out_.write("[");
    write_plain(event.kind);
    out_.write("]");
  }
  color(Style::kPlain);
  out_.write(" ");
  color(Style::kBold);
  event.name.empty() ? out_.write("(lost)") : write_plain(event.name);
  color(Style::kPlain);
  if (event.call != 1) out_.print("::call{}", event.call);
  if (const std::string_view class_name = class_of(event); !class_name.empty()) {
    out_.write(" (");
    write_plain(class_name);
    out_.write(")");
  }
  if (event.kind == kGraphKind) write_plain(graph_text(read_graph_notes(event.notes)));
  if (!event.arguments.empty() || !event.results.empty()) {
    const bool only_results = event.arguments.empty() && event.kind == "module";
    if (!only_results) out_.write("(");
    write_text(event.arguments);
    if (!only_results) out_.write(")");
    if (!event.results.empty()) out_.write(" -> ");
    write_text(event.results);
  } else {
    write_listed("in", "(");
    write_listed("out", " -> ");
  }
}

// Of a source that gives no text: its tensors one after another.
void EventText::write_listed(std::string_view role, std::string_view before) {
  bool any = false;
  for (const Value& value : values_) {
    if (is_argument(value.use.role) != is_argument(role)) continue;
    out_.write(any ? ", " : before);
    any = true;
    if (role != value.use.role) out_.print("{}=", value.use.role);
    write_tensor(value);
  }
  if (any && role == "in") out_.write(")");
}

void EventText::write_operator(const EventRecord& event, const Line& line) {
  const OpName parts = split_op_name(event.name);
  if (event.kind == "kernel") {
    const OperatorParts names = split_operator(parts.op);
    color(Style::kYellow);
    out_.print("[{}]", names.library.empty() ? "kernel" : printable(names.library));
    color(Style::kPlain);
    out_.write(" ");
    write_plain(names.library.empty() ? parts.op : parts.op.substr(names.library.size() + 2));
  } else {
    if (parts.scope != line.scope && !parts.scope.empty()) {
      write_plain(parts.scope);
      out_.write(":");
    }
    event.name.empty() ? out_.write("(lost)") : write_plain(parts.op);
  }
  if (event.returned) {
    out_.write("(");
    write_text(event.arguments);
    out_.write(")");
    if (!event.results.empty()) {
      out_.write(" -> ");
      write_text(event.results);
    }
  } else {
    write_listed("in", "(");
    write_listed("out", " -> ");
  }
}

// `%add_1 = aten.add.Tensor(%add, 1) -> f32[2, 8]`
void EventText::write_node(const EventRecord& event) {
  color(Style::kBold);
  event.name.empty() ? out_.write("(lost)") : write_plain(event.name);
  color(Style::kPlain);
  out_.write(" = ");
  write_plain(called_text(node_));
  if (!event.returned) {
    write_listed("in", "(");
    write_listed("out", " -> ");
    return;
  }
  if (!node_.is_given()) {
    out_.write("(");
    write_text(event.arguments);
    out_.write(")");
  }
  if (!event.results.empty()) out_.write(" -> ");
  write_text(event.results);
}

// Arguments or results: `%N` is the tensor N.
void EventText::write_text(std::string_view text) {
  for_each_part(
      text, [&](std::string_view part) { write_plain(part); },
      [&](uint32_t number) {
        if (number >= values_.size()) return false;
        write_tensor(values_[number]);
        return true;
      });
}

void EventText::write_tensor(const Value& value) {
  if (!node_.op.empty() && write_operand(value)) return;
  const std::string_view placements = notes_.placements_of(value.use.role, value.use.path);
  text_ = placements.empty() ? "t" : "dt";
  if (value.use.tensor != kNoNumber) fmt::format_to(std::back_inserter(text_), "${}", value.use.tensor);
  if (value.record) {
    text_ += ": ";
    if (const std::string_view sizes = notes_.sizes_of(value.use.role, value.use.path); !sizes.empty())
      text_.append(dtype_name(value.record->dtype)) += printable(sizes);
    else
      append_type(text_, *value.record);
    if (options_.strides && !value.record->strides.empty()) text_ += " strides " + shape_text(value.record->strides);
    if (value.record->device == "meta") text_ += " meta";
  }
  if (!placements.empty()) text_ += printable(placements);
  if (const std::string_view format = notes_.format_of(value.use.role, value.use.path); !format.empty())
    text_ += " as " + printable(format);
  if (value.use.written) text_ += '!';
  out_.write(text_);
}

// A tensor of a node: an argument by the node that made it, anything else by its type.
bool EventText::write_operand(const Value& value) {
  if (!value.record) return false;
  text_.clear();
  const uint32_t maker = value.record->event;
  if (value.use.role == "in" && value.record->role != "in" && maker < pass_.event_count() &&
      is_node(pass_.event(maker))) {
    text_ = printable(pass_.event(maker).name);
    if (value.record->call != 1) text_ += fmt::format("::call{}", value.record->call);
    text_ += printable(value.record->path);
  } else {
    append_type(text_, *value.record);
    if (options_.strides && !value.record->strides.empty()) text_ += " strides " + shape_text(value.record->strides);
  }
  if (value.use.written) text_ += '!';
  out_.write(text_);
  return true;
}

void EventText::write_statistics(const Stats& stats, DType dtype) {
  if (!std::isnan(stats.mean)) {
    out_.print(", mean {}", statistic_text(stats.mean, DType::kF64, kDigits));
    out_.print(", max_abs {}", statistic_text(stats.max_abs, dtype, kDigits));
  }
  if (stats.nan + stats.pos_inf + stats.neg_inf == 0) return;
  out_.write(", ");
  color(Style::kPlain);
  out_.write(Style::kRed, nonfinite_text(stats));
  color(Style::kDim);
}

void EventText::write_values(bool (*chosen)(const Value&), bool labels) {
  bool first = true;
  for (const Value& value : values_) {
    if (!chosen(value) || !value.has_hash()) continue;
    if (!first) out_.write("; ");
    first = false;
    if (labels) {
      if (value.use.role != "out") out_.print("{} ", value.use.role);
      write_plain(value.use.path);
      if (!value.use.path.empty()) out_.write(" ");
    }
    out_.write(short_hash(value.record->fingerprint.hash));
    write_statistics(value.record->fingerprint.stats, value.record->dtype);
  }
}

void EventText::write_hashes(std::string_view title) {
  out_.write(title);
  bool first = true;
  for (const Value& value : values_) {
    if (!is_argument(value.use.role)) continue;
    out_.write(first ? " " : ", ");
    first = false;
    out_.write(value.has_hash() ? short_hash(value.record->fingerprint.hash) : "-");
  }
}

void EventText::write_comment(const EventRecord& event, const Line& line, bool kernel) {
  const auto result = [](const Value& value) { return !is_argument(value.use.role) && !value.again; };
  if (line.lost || notes_.raised) {
    next_remark();
    color(Style::kPlain);
    out_.write(Style::kYellow, notes_.raised ? "raised" : "did not return");
    color(Style::kDim);
  }
  if (!kernel) {
    const auto results = std::ranges::count_if(values_, [&](const Value& v) { return result(v) && v.has_hash(); });
    const bool plain =
        std::ranges::none_of(values_, [&](const Value& v) { return result(v) && v.has_hash() && v.use.role != "out"; });
    if (results > 0) {
      next_remark();
      write_values(result, results > 1 || !plain);
    }
    if (options_.inputs &&
        std::ranges::any_of(values_, [&](const Value& v) { return is_argument(v.use.role) && v.has_hash(); })) {
      next_remark();
      write_hashes("in:");
    }
  }
  const auto remark = [&](std::string_view what, std::string_view text) {
    next_remark();
    out_.write(what);
    write_plain(text);
  };
  if (notes_.fake) remark("", "fake: no values");
  for (const auto& [place, why] : notes_.unread) {
    remark("", place);
    out_.write(place.empty() ? "not read: " : " not read: ");
    write_plain(why);
  }
  if (!node_.parameter.empty()) remark("parameter ", node_.parameter);
  if (!node_.module.empty() && node_.module != line.scope) remark("in ", node_.module);
  if (!notes_.gradient.empty()) remark("gradient of ", notes_.gradient);
  if (!notes_.group.empty()) remark("group ", notes_.group);
  if (!notes_.mesh.empty()) remark("mesh ", notes_.mesh);
  if (!notes_.hook.empty()) remark("", notes_.hook);
  if (!notes_.readable) remark("", "notes that are no JSON object");
  if (options_.keys) remark("key ", to_string(Key{.name = std::string(event.name), .call = event.call}));
}

// Each buffer before and after.
void EventText::write_kernel_values(std::string_view margin) {
  const auto line = [&](std::string_view title, bool (*chosen)(const Value&)) {
    bool any = false;
    for (const Value& value : values_) {
      if (!chosen(value) || !value.has_hash()) continue;
      if (!any) {
        out_.write(margin);
        color(Style::kDim);
        out_.write(title);
      }
      out_.write(any ? "; " : " ");
      any = true;
      write_plain(argument_of(value.use.path));
      out_.print(" {}", short_hash(value.record->fingerprint.hash));
      write_statistics(value.record->fingerprint.stats, value.record->dtype);
    }
    if (!any) return;
    color(Style::kPlain);
    out_.write("\n");
  };
  line("# before:", [](const Value& value) { return value.use.role == "in"; });
  line("# after: ", [](const Value& value) { return value.use.role != "in"; });
}

}  // namespace ttap
