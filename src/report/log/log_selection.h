#pragma once

#include <optional>
#include <string>

#include "core/pattern.h"
#include "report/log/log.h"

namespace ttap {

// Whether an event has a name as core/op_name.h says: an op or a kernel.
bool is_operator(const EventRecord& event);
// Whether it is a node of a graph, of which the notes say what it called.
bool is_node(const EventRecord& event);

// The events of a pass that the options ask for. Keeps no state, so any event can be asked about at any time.
class LogSelection {
 public:
  static Result<LogSelection> make(const Pass& pass, const LogOptions& options);

  // Those to look at.
  size_t begin() const { return begin_; }
  size_t end() const { return end_; }
  bool wants(size_t index, const EventRecord& event) const;
  bool wants(size_t index) const { return wants(index, pass_->event(index)); }
  // Whether an event that another refers to is among those that are looked at and wanted.
  bool has(size_t index) const { return index >= begin_ && index < end_ && wants(index); }

 private:
  LogSelection(const Pass& pass, const LogOptions& options) : pass_(&pass), options_(&options) {}
  bool in_module(EventRecord event) const;

  const Pass* pass_;
  const LogOptions* options_;
  std::optional<Pattern> filter_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace ttap
