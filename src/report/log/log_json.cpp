#include "report/log/log_json.h"

#include "analyze/ops/event_op.h"
#include "report/log/event_notes.h"
#include "report/log/event_tensors.h"
#include "report/log/log_selection.h"
#include "report/tensor/record_json.h"
#include "report/text/json_reader.h"

namespace ttap {
namespace {

class EventJson {
 public:
  EventJson(JsonWriter& json, const Pass& pass)
      : json_(json), pass_(pass), tensors_(pass, EventTensors::Of::kEveryEvent) {}

  void write(uint32_t index) {
    const EventRecord event = pass_.event(index);
    const EventOp name = op_of_event(pass_, index);
    json_.begin_line().member("index", index);
    json_.member("key", to_string(Key{.name = std::string(event.name), .call = event.call}));
    json_.member("name", event.name).member("kind", event.kind).member("call", event.call);
    json_.member("scope", name.scope).member("backward", name.backward).member("op", name.op);
    number_or_null("parent", event.parent);
    number_or_null("forward", event.forward);
    json_.member("thread", event.thread).member("time_ns", event.time_ns);
    json_.key("duration_ns");
    event.returned ? json_.value(event.duration_ns) : json_.null();
    json_.member("returned", has_returned(event));
    json_.member("arguments", event.arguments).member("results", event.results);
    write_notes(event.notes);
    json_.member("stack", event.stack);
    json_.key("uses").begin_list();
    for (size_t i = 0; i < event.use_count; ++i) write_use(pass_.use(index, i));
    json_.end().key("tensors").begin_list();
    for (const auto& [_, tensor] : tensors_.of(index)) write_tensor(tensor);
    json_.end().end();
  }

 private:
  void number_or_null(std::string_view name, uint32_t number) {
    json_.key(name);
    number == kNoNumber ? json_.null() : json_.value(number);
  }

  void write_notes(std::string_view text) {
    json_.key("notes");
    if (text.empty()) {
      json_.null();
      return;
    }
    const auto notes = read_json(text);
    notes.ok() ? json_.raw(json_text(*notes)) : json_.value(text);
  }

  void write_use(const UseRecord& use) {
    json_.begin_line().member("role", use.role).member("path", use.path);
    number_or_null("tensor", use.tensor);
    json_.member("written", use.written);
    number_or_null("record", use.record);
    if (use.record < pass_.tensor_count()) {
      const TensorRecord record = pass_.tensor(use.record);
      // Who made it: of a value that came from outside, nobody.
      number_or_null("producer", record.role == "in" ? kNoEvent : record.event);
      json_.member("dtype", dtype_name(record.true_dtype.value_or(record.dtype))).member("shape", record.shape);
      json_.key("hash");
      record.has_fingerprint ? json_.value(to_string(record.fingerprint.hash)) : json_.null();
    }
    json_.end();
  }

  void write_tensor(uint32_t index) {
    const TensorRecord tensor = pass_.tensor(index);
    json_.begin_line();
    write_tensor_members(json_, index, tensor);
    json_.key("statistics");
    tensor.has_fingerprint ? write_stats(json_, tensor.fingerprint.stats) : void(json_.null());
    json_.end();
  }

  JsonWriter& json_;
  const Pass& pass_;
  EventTensors tensors_;
};

}  // namespace

Status write_events(JsonWriter& json, const Pass& pass, const LogOptions& options, const Output& out) {
  TTAP_ASSIGN(const LogSelection selection, LogSelection::make(pass, options));
  json.begin_array();
  EventJson events(json, pass);
  for (size_t i = selection.begin(); i < selection.end() && !out.closed(); ++i)
    if (selection.wants(i)) events.write(static_cast<uint32_t>(i));
  json.end();
  return {};
}

Status write_log_json(const Pass& pass, const LogOptions& options, Output& out) {
  JsonWriter json(out);
  return write_events(json, pass, options, out);
}

}  // namespace ttap
