#include "capture/filter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>

namespace ttap {

void Pattern::Free::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

Result<Pattern> Pattern::compile(const std::string& text) {
  int code = 0;
  PCRE2_SIZE at = 0;
  auto* compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, &code, &at, nullptr);
  if (compiled == nullptr) {
    std::array<PCRE2_UCHAR, 256> reason{};
    pcre2_get_error_message(code, reason.data(), reason.size());
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("bad pattern '{}': {} at character {}", text,
                                        reinterpret_cast<const char*>(reason.data()), at)};
  }
  return Pattern(text, compiled);
}

bool Pattern::found_in(std::string_view subject) const {
  struct FreeMatch {
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create(1, nullptr));
  const auto* begin = reinterpret_cast<PCRE2_SPTR>(subject.data());
  return pcre2_match(code_.get(), begin, subject.size(), 0, 0, match.get(), nullptr) >= 0;
}

Result<Filter> Filter::create(const RecorderOptions& options) {
  Filter filter;
  filter.level_ = options.level;
  filter.everything_ = !options.filter.has_value();
  for (const std::string& text : options.filter.value_or(std::vector<std::string>{})) {
    TTAP_ASSIGN(Pattern pattern, Pattern::compile(text));
    filter.names_.push_back({std::move(pattern), options.level});
  }
  for (const LevelRule& rule : options.level_rules) {
    TTAP_ASSIGN(Pattern pattern, Pattern::compile(rule.pattern));
    filter.levels_.push_back({std::move(pattern), rule.level});
  }
  return filter;
}

std::optional<Level> Filter::decide(std::string_view name) {
  bool wanted = everything_;
  for (Rule& rule : names_) {
    if (!rule.pattern.found_in(name)) continue;
    ++rule.matched;
    wanted = true;
  }
  if (!wanted) return std::nullopt;
  std::optional<Level> level;
  for (Rule& rule : levels_) {
    if (!rule.pattern.found_in(name)) continue;
    ++rule.matched;
    if (!level) level = rule.level;
  }
  return level.value_or(level_);
}

std::vector<std::pair<std::string, uint64_t>> Filter::matches() const {
  std::vector<std::pair<std::string, uint64_t>> result;
  for (const auto* rules : {&names_, &levels_})
    for (const Rule& rule : *rules) result.emplace_back(rule.pattern.text(), rule.matched);
  return result;
}

}  // namespace ttap
