#include "report/run/describe.h"

#include <fmt/format.h>

#include "report/text/json_reader.h"
#include "report/text/text.h"

namespace ttap {
namespace {

struct NamedDrop {
  std::string_view words;
  std::string_view name;
  uint64_t DropCounts::*count;
};
constexpr NamedDrop kDrops[] = {{"staging full", "staging_full", &DropCounts::staging_full},
                                {"quota", "quota", &DropCounts::quota},
                                {"disk full", "disk_full", &DropCounts::disk_full},
                                {"write error", "io_error", &DropCounts::io_error},
                                {"unsupported", "unsupported", &DropCounts::unsupported},
                                {"late", "late", &DropCounts::late},
                                {"events", "events", &DropCounts::events}};

// What the recorder wrote, if it is JSON; a file may hold anything there.
std::string metadata_json(const PassInfo& info) {
  const auto json = read_json(info.metadata_json);
  return json.ok() ? json_text(*json) : "null";
}

}  // namespace

std::string rank_text(const Rank& rank) { return fmt::format("rank {} (pid {})", rank.number, rank.pid); }

std::string ending_text(const PassInfo& info) {
  return fmt::format("{}{}", to_string(info.ending), info.being_written ? ", still being written" : "");
}

Style ending_style(const PassInfo& info) {
  if (info.ending == Ending::kComplete) return Style::kGreen;
  return info.being_written ? Style::kCyan : Style::kYellow;
}

std::string drops_text(const DropCounts& drops) {
  if (drops.total() == 0) return "";
  std::string causes;
  for (const NamedDrop& drop : kDrops) {
    if (drops.*drop.count == 0) continue;
    causes += fmt::format("{}{} {}", causes.empty() ? "" : ", ", drop.words, drops.*drop.count);
  }
  return fmt::format("{} dropped ({})", drops.total(), causes);
}

void write_run_members(JsonWriter& json, const Run& run) {
  json.member("path", run.path.string()).member("run", run.number).member("runs", run.runs);
}

std::string torn_text(const PassInfo& info) {
  if (info.problem.empty()) return "";
  std::string_view why = info.problem;
  // The place is said already.
  const std::string place = fmt::format(" (at byte {})", info.readable_bytes);
  if (why.ends_with(place)) why.remove_suffix(place.size());
  return fmt::format("{} after byte {} are not readable: {}",
                     count_text(info.file_bytes - info.readable_bytes, "byte", "bytes"), info.readable_bytes,
                     printable(why));
}

std::string parents_text(const Pass& pass, uint32_t event) {
  if (event >= pass.event_count()) return "";
  std::string text;
  // A parent always comes before its child, so this ends.
  for (uint32_t at = pass.event(event).parent; at != kNoEvent && at < pass.event_count(); at = pass.event(at).parent) {
    const EventRecord parent = pass.event(at);
    std::string name = parent.name.empty() ? "(lost)" : printable(parent.name);
    if (parent.call != 1) name += fmt::format("::call{}", parent.call);
    text = text.empty() ? name : fmt::format("{} > {}", name, text);
  }
  return text;
}

void write_condition(JsonWriter& json, const PassInfo& info) {
  json.member("path", info.path.string()).member("format", to_string(info.format));
  json.member("ending", to_string(info.ending)).member("being_written", info.being_written);
  json.member("file_bytes", info.file_bytes).member("readable_bytes", info.readable_bytes);
  json.key("problem");
  info.problem.empty() ? json.null() : json.value(info.problem);
  json.key("drops").begin_line();
  for (const NamedDrop& drop : kDrops) json.member(drop.name, info.drops.*drop.count);
  json.end();
}

void write_pass_members(JsonWriter& json, const SelectedPass& selected, const Pass& pass) {
  const PassInfo& info = pass.info();
  json.member("rank", selected.rank->number).member("pid", selected.rank->pid).member("pass", info.number);
  write_condition(json, info);
  json.member("started_unix_ns", info.started_unix_ns);
  json.key("notes").begin_list();
  for (const std::string& note : info.notes) json.value(note);
  json.end();
  json.key("metadata").raw(metadata_json(info));
  json.member("event_count", pass.event_count()).member("tensor_count", pass.tensor_count());
}

void write_unreadable(JsonWriter& json, const SelectedPass& selected, const Error& error) {
  json.member("rank", selected.rank->number).member("pid", selected.rank->pid).member("pass", selected.file->number);
  json.member("path", selected.file->path.string()).key("error");
  write_error(json, error);
}

void write_event(JsonWriter& json, const Pass& pass, uint32_t event) {
  if (event >= pass.event_count()) {
    json.null();
    return;
  }
  const EventRecord record = pass.event(event);
  json.begin_line();
  json.member("index", event).member("name", record.name).member("kind", record.kind).member("call", record.call);
  json.key("parent");
  if (record.parent < pass.event_count()) {
    json.value(pass.event(record.parent).name);
  } else {
    json.null();
  }
  json.member("thread", record.thread).member("time_ns", record.time_ns).member("stack", record.stack);
  json.end();
}

void write_located(JsonWriter& json, const Located& value, std::span<const int64_t> shape) {
  const auto index = index_of(value.element, shape);
  json.begin_line();
  json.member("index", std::span<const int64_t>(index)).member("part", value.part).member("value", value.value);
  json.end();
}

std::string_view advice_for(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "see --help";
    case ErrorCode::kNotFound: return "check the path; a run, a rank directory or one pass is expected";
    case ErrorCode::kIo: return "check that it can be read and that the disk is sound";
    case ErrorCode::kNoSpace: return "make room, or choose another directory";
    case ErrorCode::kNotThisFormat:
      return "give a .ttap, .pt or .safetensors file, a folder of .npy files, a rank directory or a run";
    case ErrorCode::kVersion: return "use a newer ttap";
    case ErrorCode::kTruncated: return "the rest was never written or has been cut off; copy or record it again";
    case ErrorCode::kCorrupt: return "it was damaged after it was recorded; copy or record it again";
    case ErrorCode::kUnsupported: return "save the tensors in another form, for example .safetensors";
    case ErrorCode::kTooLarge: return "split it, or record fewer tensors";
    case ErrorCode::kForbidden: return "save the tensors alone, without objects of other classes";
    case ErrorCode::kNotRecorded: return "record it with level full";
  }
  return "see --help";
}

void write_error(JsonWriter& json, const Error& error) {
  json.begin_line();
  json.member("code", to_string(error.code)).member("message", error.message).member("path", error.path);
  json.key("offset");
  error.offset ? json.value(*error.offset) : json.null();
  json.member("hint", error.hint.empty() ? advice_for(error.code) : std::string_view(error.hint));
  json.end();
}

}  // namespace ttap
