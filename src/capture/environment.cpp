#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

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

Result<uint64_t> parse_size(const char* name, std::string_view text) {
  constexpr std::string_view kUnits = "KMGT";
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  unsigned shift = 0;
  if (!unit.empty()) {
    const size_t which = kUnits.find(static_cast<char>(unit[0] & ~0x20));
    shift = which == std::string_view::npos ? 0 : static_cast<unsigned>(10 * (which + 1));
    unit.remove_prefix(1);
  }
  const bool unit_ok = shift > 0 ? unit.empty() : end == text.data() + text.size();
  if (error != std::errc{} || !unit_ok || number > (UINT64_MAX >> shift))
    return bad_value(name, text, "a number of bytes, or one with K, M, G or T");
  return number << shift;
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
  const Error wrong = bad_value("TTAP_LEVEL", text, "meta, fingerprint or full, or a JSON object {pattern: level}");
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
  if (const char* text = variable("TTAP_DIR")) base.directory = text;
  if (const char* text = variable("TTAP_LEVEL")) {
    TTAP_TRY(parse_level(text, base));
  }
  if (const char* text = variable("TTAP_FORMAT")) {
    const auto format = format_from_name(text);
    if (!format) return bad_value("TTAP_FORMAT", text, "ttap, pt, safetensors or npy");
    base.format = *format;
  }
  // A blank filter says something: record nothing.
  if (const char* text = std::getenv("TTAP_FILTER")) {
    TTAP_ASSIGN(base.filter, parse_filter(text));
  }
  if (const char* text = variable("TTAP_STAGING_BYTES")) {
    TTAP_ASSIGN(base.staging_bytes, parse_size("TTAP_STAGING_BYTES", text));
  }
  if (const char* text = variable("TTAP_DEVICE_STAGING_BYTES")) {
    TTAP_ASSIGN(base.device_staging_bytes, parse_size("TTAP_DEVICE_STAGING_BYTES", text));
  }
  if (const char* text = variable("TTAP_QUOTA_BYTES")) {
    TTAP_ASSIGN(base.quota_bytes, parse_size("TTAP_QUOTA_BYTES", text));
  }
  if (const char* text = variable("TTAP_WHEN_FULL")) {
    const std::string_view value = text;
    if (value != "block" && value != "drop") return bad_value("TTAP_WHEN_FULL", value, "block or drop");
    base.when_full = value == "drop" ? WhenFull::kDrop : WhenFull::kBlock;
  }
  if (const char* text = variable("TTAP_WRITE")) {
    const std::string_view value = text;
    if (value != "auto" && value != "direct" && value != "buffered")
      return bad_value("TTAP_WRITE", value, "auto, direct or buffered");
    base.write = value == "auto" ? WriteMode::kAuto : value == "direct" ? WriteMode::kDirect : WriteMode::kBuffered;
  }
  if (const char* text = variable("TTAP_STRICT")) {
    const std::string_view value = text;
    if (value != "0" && value != "1") return bad_value("TTAP_STRICT", value, "0 or 1");
    base.strict = value == "1";
  }
  return base;
}

}  // namespace ttap
