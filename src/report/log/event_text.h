#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/log/event_notes.h"
#include "report/log/event_tensors.h"
#include "report/log/log.h"
#include "store/graph/graph_notes.h"

namespace ttap {

// `f32[8, 8]`, appended.
void append_type(std::string& text, const TensorRecord& tensor);
// The first digits of a hash, enough to tell values of one pass apart.
std::string short_hash(const Hash128& hash);

// Writes events, each on a line of its own: what ran, on what, what came of it.
class EventText {
 public:
  EventText(const Pass& pass, const LogOptions& options, Output& out) : pass_(pass), options_(options), out_(out) {}

  struct Line {
    uint32_t index = 0;
    std::string_view scope = {};   // the module in whose block the line stands; it is not said again
    std::string_view margin = {};  // of the lines that follow the first
    bool lost = false;             // it did not return, though others of its kind say when they do
  };
  // From the name to the end of the line, and the lines that follow it.
  void write(const EventRecord& event, const Line& line);

 private:
  // A tensor of the event.
  struct Value {
    UseRecord use;
    std::optional<TensorRecord> record;
    bool again = false;  // an argument as the call left it, which is a result as well

    bool has_hash() const { return record && record->has_fingerprint; }
  };
  void read_values(const EventRecord& event, uint32_t index);
  void write_module(const EventRecord& event);
  std::string_view class_of(const EventRecord& event) const;
  void write_operator(const EventRecord& event, const Line& line);
  void write_node(const EventRecord& event);
  void write_listed(std::string_view role, std::string_view before);
  void write_text(std::string_view text);
  void write_tensor(const Value& value);
  bool write_operand(const Value& value);
  void write_comment(const EventRecord& event, const Line& line, bool kernel);
  void write_kernel_values(std::string_view margin);
  void write_statistics(const Stats& stats, DType dtype);
  void write_values(bool (*chosen)(const Value&), bool labels);
  void write_hashes(std::string_view title);
  void write_plain(std::string_view text);
  void next_remark();
  void color(Style style);

  const Pass& pass_;
  const LogOptions& options_;
  Output& out_;
  std::optional<EventTensors> tensors_;  // made when it is first needed
  std::vector<Value> values_;            // of the event that is being written
  EventNotes notes_;
  NodeNotes node_;         // of a node
  bool remarked_ = false;  // a comment has begun
  std::string text_;
};

}  // namespace ttap
