#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "core/byte_size.h"
#include "core/json.h"
#include "ttap/recorder.h"

namespace ttap {
namespace {

const char* variable(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

Error bad_value(std::string_view name, std::string_view text, std::string_view expected) {
  return {.code = ErrorCode::kInvalidArgument,
          .message = fmt::format("{}='{}'", name, text),
          .hint = fmt::format("expected {}", expected)};
}

// A JSON list of strings, a JSON string, or bare text: one pattern. Blank text selects nothing.
Result<std::vector<std::string>> parse_filter(std::string_view text) {
  if (text.find_first_not_of(" \t") == std::string_view::npos) return std::vector<std::string>{};
  const auto json = parse_sorted_json(text);
  if (json.is_discarded()) return std::vector<std::string>{std::string(text)};
  if (json.is_string()) return std::vector<std::string>{json.get<std::string>()};
  std::vector<std::string> patterns;
  if (json.is_array())
    for (const auto& item : json)
      if (item.is_string()) patterns.push_back(item.get<std::string>());
  if (!json.is_array() || patterns.size() != json.size())
    return bad_value("TTAP_FILTER", text, "a pattern, or a JSON list of patterns");
  return patterns;
}

// A level for every name, or a JSON object of levels by pattern, in its order.
Status parse_level(std::string_view text, RecorderOptions& options) {
  if (const auto level = level_from_name(text)) {
    options.level = *level;
    return {};
  }
  const Error wrong =
      bad_value("TTAP_LEVEL", text, "meta, fingerprint, sketch or full, or a JSON object {pattern: level}");
  const auto json = parse_json(text);
  if (!json.is_object()) return wrong;
  std::vector<LevelRule> rules;
  for (const auto& [pattern, value] : json.items()) {
    const auto level = value.is_string() ? level_from_name(value.get<std::string>()) : std::nullopt;
    if (!level) return wrong;
    rules.push_back({pattern, *level});
  }
  options.level_rules = std::move(rules);
  return {};
}

}  // namespace

Result<RecorderOptions> RecorderOptions::from_environment(RecorderOptions base) {
  const char* override = variable("TTAP_OVERRIDE");
  if (override != nullptr && override != std::string_view("0") && override != std::string_view("1"))
    return bad_value("TTAP_OVERRIDE", override, "0 or 1");
  const bool wins = override != nullptr && override == std::string_view("1");
  const RecorderOptions plain;
  // The text of a variable, unless the program has chosen something else than the default.
  const auto text_for = [&](const char* name, auto RecorderOptions::*member) {
    return wins || base.*member == plain.*member ? variable(name) : nullptr;
  };
  const auto read_size = [&](const char* name, uint64_t RecorderOptions::*member) -> Status {
    const char* text = text_for(name, member);
    if (text == nullptr) return {};
    const auto size = parse_byte_size(text);
    if (!size) return bad_value(name, text, "a number of bytes, or one with K, M, G or T");
    base.*member = *size;
    return {};
  };

  const auto read_flag = [&](const char* name, bool RecorderOptions::*member) -> Status {
    const char* text = text_for(name, member);
    if (text == nullptr) return {};
    if (text != std::string_view("0") && text != std::string_view("1")) return bad_value(name, text, "0 or 1");
    base.*member = text == std::string_view("1");
    return {};
  };

  if (const char* text = text_for("TTAP_DIR", &RecorderOptions::directory)) {
    base.directory = text;
    // Says which run of that directory, and of no other.
    if (const char* number = variable("TTAP_RUN_NUMBER"); number != nullptr && !base.run) {
      uint32_t run = 0;
      const char* end = number + std::string_view(number).size();
      if (std::from_chars(number, end, run).ptr != end || run == 0)
        return bad_value("TTAP_RUN_NUMBER", number, "a number from 1 on");
      base.run = run;
    }
  }
  TTAP_TRY(read_flag("TTAP_APPEND", &RecorderOptions::append));
  if (const char* text = text_for("TTAP_LEVEL", &RecorderOptions::level); text && (wins || base.level_rules.empty())) {
    TTAP_TRY(parse_level(text, base));
  }
  if (const char* text = text_for("TTAP_FORMAT", &RecorderOptions::format)) {
    const auto format = format_from_name(text);
    if (!format) return bad_value("TTAP_FORMAT", text, "ttap, pt, safetensors or npy");
    base.format = *format;
  }
  // A blank filter says something: record nothing.
  if (const char* text = std::getenv("TTAP_FILTER"); text != nullptr && (wins || !base.filter)) {
    TTAP_ASSIGN(base.filter, parse_filter(text));
  }
  TTAP_TRY(read_size("TTAP_STAGING_BYTES", &RecorderOptions::staging_bytes));
  TTAP_TRY(read_size("TTAP_DEVICE_STAGING_BYTES", &RecorderOptions::device_staging_bytes));
  TTAP_TRY(read_size("TTAP_QUOTA_BYTES", &RecorderOptions::quota_bytes));
  if (const char* text = text_for("TTAP_WHEN_FULL", &RecorderOptions::when_full)) {
    const std::string_view value = text;
    if (value != "block" && value != "drop") return bad_value("TTAP_WHEN_FULL", value, "block or drop");
    base.when_full = value == "drop" ? WhenFull::kDrop : WhenFull::kBlock;
  }
  if (const char* text = text_for("TTAP_WRITE", &RecorderOptions::write)) {
    const std::string_view value = text;
    if (value != "auto" && value != "direct" && value != "buffered")
      return bad_value("TTAP_WRITE", value, "auto, direct or buffered");
    base.write = value == "auto" ? WriteMode::kAuto : value == "direct" ? WriteMode::kDirect : WriteMode::kBuffered;
  }
  TTAP_TRY(read_flag("TTAP_STRICT", &RecorderOptions::strict));
  return base;
}

}  // namespace ttap
