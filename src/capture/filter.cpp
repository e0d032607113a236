#include "capture/filter.h"

namespace ttap {

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
