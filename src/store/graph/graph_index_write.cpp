#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>

#include "core/json.h"
#include "quant/format_json.h"
#include "store/graph/graph_index.h"
#include "store/segment/segment_writer.h"

namespace ttap {
namespace {

// JSON has neither NaN nor infinity.
Json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json json_of(const Stats& stats) {
  return {{"count", stats.count},
          {"nan", stats.nan},
          {"pos_inf", stats.pos_inf},
          {"neg_inf", stats.neg_inf},
          {"zeros", stats.zeros},
          {"subnormals", stats.subnormals},
          {"min", number(stats.min)},
          {"max", number(stats.max)},
          {"max_abs", number(stats.max_abs)},
          {"min_abs_nonzero", number(stats.min_abs_nonzero)},
          {"mean", number(stats.mean)},
          {"std", number(stats.std)},
          {"l1", number(stats.l1)},
          {"l2", number(stats.l2)}};
}

// Less than the reader of an index bears, as there is something around it.
constexpr int kDeepestEmbedded = 32;

// Text that is JSON already; what is not, or is nested too deep, stays text.
Json embedded(const std::string& text) {
  Json parsed = parse_json(text, kDeepestEmbedded);
  return parsed.is_object() ? parsed : Json(text);
}

Json json_of(const StoredEvent& event) {
  Json json = {{"name", event.name}, {"kind", event.kind}};
  const auto text = [&](const char* name, const std::string& value) {
    if (!value.empty()) json[name] = value;
  };
  if (event.call != 1) json["call"] = event.call;
  if (event.parent != kNoEvent) json["parent"] = event.parent;
  json["thread"] = event.thread;
  json["time_ns"] = event.time_ns;
  text("arguments", event.arguments);
  text("results", event.results);
  if (!event.notes.empty()) json["notes"] = embedded(event.notes);
  if (event.forward != kNoEvent) json["forward"] = event.forward;
  if (event.returned) json["duration_ns"] = event.duration_ns;
  text("stack", event.stack);
  if (!event.uses.empty()) {
    Json uses = Json::array();
    for (const StoredUse& use : event.uses) {
      Json one = {{"role", use.role}, {"path", use.path}};
      if (use.tensor != kNoNumber) one["tensor"] = use.tensor;
      if (use.record != kNoNumber) one["record"] = use.record;
      if (use.written) one["written"] = true;
      uses.push_back(std::move(one));
    }
    json["uses"] = std::move(uses);
  }
  return json;
}

Json json_of(const StoredTensor& tensor) {
  Json json = {{"name", tensor.name}};
  if (tensor.call != 1) json["call"] = tensor.call;
  json["role"] = tensor.role;
  json["path"] = tensor.path;
  if (tensor.event != kNoEvent) json["event"] = tensor.event;
  json["dtype"] = dtype_name(tensor.dtype);
  json["shape"] = tensor.shape;
  if (!tensor.strides.empty()) json["strides"] = tensor.strides;
  json["device"] = tensor.device;
  json["level"] = to_string(tensor.level);
  if (tensor.value != 0) json["value"] = tensor.value;
  if (!tensor.group.empty()) {
    json["group"] = embedded(tensor.group);
  }
  if (!tensor.file.empty()) json["file"] = tensor.file.generic_string();
  if (tensor.codes) json["codes"] = true;
  if (tensor.fingerprint) {
    json["hash"] = to_string(tensor.fingerprint->hash);
    json["statistics"] = json_of(tensor.fingerprint->stats);
  }
  return json;
}

Json json_of(const GraphFile& file) {
  Json json = {{"file", file.file}, {"node", file.node}, {"target", file.target}, {"role", file.role}};
  json["path"] = file.path;
  if (file.record != kNoNumber) json["record"] = file.record;
  json["dtype"] = dtype_name(file.dtype);
  if (file.true_dtype) json["true_dtype"] = dtype_name(*file.true_dtype);
  if (file.bytes_of) json["bytes_of"] = dtype_name(*file.bytes_of);
  return json;
}

std::string utc_text(uint64_t unix_ns) {
  constexpr uint64_t kSecond = 1'000'000'000;
  const auto seconds = static_cast<std::time_t>(unix_ns / kSecond);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:09}Z", fmt::gmtime(seconds), unix_ns % kSecond);
}

// Each entry on a line of its own.
template <class T>
std::string lines_of(const std::vector<T>& entries) {
  std::string text = "[";
  for (size_t i = 0; i < entries.size(); ++i) text += (i == 0 ? "\n  " : ",\n  ") + json_of(entries[i]).dump();
  return text + (entries.empty() ? "]" : "\n ]");
}

}  // namespace

Result<std::string> to_json(const GraphIndex& index) try {
  std::string text = "{";
  const auto member = [&](std::string_view name, const std::string& json) {
    text += fmt::format("{}\n \"{}\": {}", text.size() == 1 ? "" : ",", name, json);
  };
  const auto quoted = [](std::string_view string) { return Json(string).dump(); };
  member("format", "\"ttap-graph-npy\"");
  member("version", "1");
  member("pass", std::to_string(index.head.pass));
  member("graph", quoted(index.head.graph));
  member("step", std::to_string(index.head.step));
  if (!index.head.part_of.empty()) member("part_of", quoted(index.head.part_of));
  member("files", lines_of(index.files));
  if (index.pass != nullptr) {
    const PassInfo& info = index.pass->info;
    const Json end = parse_json(to_json(EndRecord{.ending = info.ending, .drops = info.drops}));
    member("parts", Json(index.parts).dump());
    member("started", quoted(utc_text(info.started_unix_ns)));
    member("started_unix_ns", std::to_string(info.started_unix_ns));
    member("ending", end["ending"].dump());
    member("drops", end["drops"].dump());
    member("metadata", embedded(info.metadata_json).dump());
    member("events", lines_of(index.pass->events));
    member("tensors", lines_of(index.pass->tensors));
  }
  return text + "\n}\n";
} catch (const Json::exception&) {
  return Error{.code = ErrorCode::kInvalidArgument,
               .message = "a name or text is not UTF-8, which an index.json must be",
               .hint = "a .ttap segment holds any bytes"};
}

}  // namespace ttap
