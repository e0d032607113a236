#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/op_name.h"
#include "report/log/event_text.h"
#include "report/log/log_selection.h"
#include "report/log/node_text.h"
#include "report/log/stack_text.h"
#include "report/text/text.h"

namespace ttap {
namespace {

constexpr uint16_t kUnknownDepth = 0xFFFF;
constexpr uint16_t kDeepestIndent = 100;  // what lies deeper is not moved further to the right

// Lines in the order of the events, each below what it ran in.
class LogText {
 public:
  LogText(const Pass& pass, const LogOptions& options, Output& out)
      : pass_(pass),
        options_(options),
        out_(out),
        text_(pass, options, out),
        stack_(options.stack, "File"),
        forward_stack_(options.stack, "Forward"),
        depths_(pass.event_count(), kUnknownDepth),
        shown_(pass.event_count(), false) {}

  // How many events it wrote, without those that are there for context.
  uint64_t write(const LogSelection& selection) {
    find_kinds_that_return();
    uint64_t written = 0;
    for (size_t i = selection.begin(); i < selection.end() && !out_.closed(); ++i) {
      const EventRecord event = pass_.event(i);
      if (!selection.wants(i, event)) continue;
      write_parents(event.parent);
      write_event(static_cast<uint32_t>(i), event);
      ++written;
    }
    return written;
  }

 private:
  // An event without an end did not return; unless its source never reports ends.
  void find_kinds_that_return() {
    for (size_t i = 0; i < pass_.event_count(); ++i) {
      const EventRecord event = pass_.event(i);
      if (event.returned && std::ranges::find(returning_, event.kind) == returning_.end())
        returning_.push_back(event.kind);
    }
  }

  bool needs_heading(const EventRecord& event, const OpName& name) const {
    if (!is_operator(event) || !name.backward) return false;
    return event.parent >= pass_.event_count() || !is_operator(pass_.event(event.parent));
  }

  // Columns are twice this.
  uint16_t depth_of(uint32_t index) {
    std::vector<uint32_t>& way = way_;
    way.clear();
    for (uint32_t at = index; at < pass_.event_count() && depths_[at] == kUnknownDepth; at = pass_.event(at).parent)
      way.push_back(at);
    for (auto at = way.rbegin(); at != way.rend(); ++at) {
      const EventRecord event = pass_.event(*at);
      const int above = event.parent < pass_.event_count() ? depths_[event.parent] + 1 : 0;
      const int heading = needs_heading(event, split_op_name(event.name)) ? 1 : 0;
      depths_[*at] = static_cast<uint16_t>(std::min<int>(above + heading, kDeepestIndent));
    }
    return depths_[index];
  }

  // What an event ran in, where that was not wanted for itself.
  void write_parents(uint32_t parent) {
    if (parent >= pass_.event_count() || shown_[parent]) return;
    std::vector<uint32_t> missing;
    for (; parent < pass_.event_count() && !shown_[parent]; parent = pass_.event(parent).parent)
      missing.push_back(parent);
    for (auto at = missing.rbegin(); at != missing.rend(); ++at) write_event(*at, pass_.event(*at));
  }

  void write_event(uint32_t index, const EventRecord& event) {
    if (shown_[index]) return;
    shown_[index] = true;
    if (thread_ && *thread_ != event.thread) {
      start_line(0);
      out_.write(Style::kDim, fmt::format("[thread {}]\n", event.thread));
      heading_.reset();
    }
    thread_ = event.thread;
    const uint16_t depth = depth_of(index);
    const OpName name = split_op_name(event.name);
    std::string_view scope = scope_of(event.parent);
    if (needs_heading(event, name)) {
      write_heading(name.scope, depth);
      scope = name.scope;
    } else if (!is_operator(event) || !name.backward) {
      heading_.reset();
    }
    margin_.assign(gutter() + size_t{depth} * 2, ' ');
    write_stacks(event, is_operator(event) && name.backward);
    start_line(depth, options_.around == index);
    margin_ += "  ";
    const bool lost = !event.returned && std::ranges::find(returning_, event.kind) != returning_.end();
    text_.write(event, {.index = index, .scope = scope, .margin = margin_, .lost = lost});
  }

  void write_stacks(const EventRecord& event, bool backward) {
    if (options_.stack == StackFrames::kNone) return;
    // A node may have its line of the program only.
    const bool by_line = event.stack.empty() && is_node(event);
    stack_.write(by_line ? *lines_.insert(frame_of(read_node_notes(event.notes))).first : event.stack, margin_, out_);
    if (event.forward < pass_.event_count())
      forward_stack_.write(pass_.event(event.forward).stack, margin_, out_);
    else if (backward)  // what autograd does with a gradient at the end
      forward_stack_.write_none(margin_, out_);
  }

  // Over the ops of the backward of one module.
  void write_heading(std::string_view scope, uint16_t depth) {
    if (heading_ == scope) return;
    heading_ = scope;
    start_line(depth - 1);
    out_.write(Style::kYellow, "[backward]");
    if (!scope.empty()) {
      out_.write(" ");
      out_.write(Style::kBold, printable(scope));
    }
    out_.write("\n");
  }

  // The module in whose block the children of an event stand.
  std::string_view scope_of(uint32_t parent) const {
    if (parent >= pass_.event_count()) return {};
    const EventRecord event = pass_.event(parent);
    return is_operator(event) ? split_op_name(event.name).scope : event.name;
  }

  size_t gutter() const { return options_.around ? 2 : 0; }
  void start_line(size_t depth, bool marked = false) {
    if (options_.around) out_.write(marked ? Style::kGreen : Style::kPlain, marked ? "> " : "  ");
    out_.print("{:{}}", "", depth * 2);
  }

  const Pass& pass_;
  const LogOptions& options_;
  Output& out_;
  EventText text_;
  StackText stack_;
  StackText forward_stack_;
  std::vector<std::string_view> returning_;
  std::unordered_set<std::string> lines_;  // of nodes, which stack_ looks back at
  std::vector<uint16_t> depths_;
  std::vector<bool> shown_;
  std::vector<uint32_t> way_;
  std::optional<uint64_t> thread_;           // of the line before
  std::optional<std::string_view> heading_;  // the module whose backward the line before belongs to
  std::string margin_;
};

}  // namespace

Status draw_log(const Pass& pass, const LogOptions& options, Output& out) {
  TTAP_ASSIGN(const LogSelection selection, LogSelection::make(pass, options));
  if (LogText(pass, options, out).write(selection) > 0 || out.closed()) return {};
  if (pass.event_count() > 0) {
    out.write("no event matches\n");
  } else if (pass.tensor_count() > 0) {
    out.write("no events here, only tensors: ttap ls lists them\n");
  } else {
    out.write("nothing was recorded in this pass\n");
  }
  return {};
}

}  // namespace ttap
