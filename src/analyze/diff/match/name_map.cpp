#include "analyze/diff/match/name_map.h"

#include <fmt/format.h>

namespace ttap {
namespace {

// Only a match shows whether the replacement names groups that are there. One more alternative, empty, matches
// anywhere; the line break ends a comment of (?x).
Status check_replacement(const Pattern& pattern, std::string_view replacement) {
  const auto probe = Pattern::compile(pattern.text() + "\n|");
  if (!probe.ok()) return {};
  const auto replaced = probe->replaced("", replacement);
  if (replaced.ok()) return {};
  return Error{
      .code = ErrorCode::kInvalidArgument,
      .message = fmt::format("the replacement '{}' does not fit the pattern '{}'", replacement, pattern.text()),
      .hint = "$1 is what the first pair of parentheses caught, ${1} the same before a digit, $$ a dollar"};
}

}  // namespace

Result<NameMap> NameMap::parse(std::string_view yaml, const std::string& path) {
  NameMap map;
  TTAP_ASSIGN(auto lines, parse_rules(yaml, path));
  TTAP_TRY(map.add(std::move(lines), path));
  return map;
}

Result<NameMap> NameMap::read(const std::string& path) {
  NameMap map;
  TTAP_ASSIGN(auto lines, read_rules(path));
  TTAP_TRY(map.add(std::move(lines), path));
  return map;
}

Status NameMap::add(std::vector<RuleLine> lines, const std::string& path) {
  for (RuleLine& line : lines) {
    const auto at_line = [&](Error error) {
      error.message = fmt::format("line {}: {}", line.line, error.message);
      return std::move(error).with_path(path);
    };
    auto pattern = Pattern::compile(line.pattern);
    if (!pattern.ok()) return at_line(std::move(pattern).error());
    if (auto fits = check_replacement(*pattern, line.value); !fits.ok()) return at_line(std::move(fits).error());
    rules_.push_back({std::move(pattern).value(), std::move(line.value)});
  }
  return {};
}

std::string NameMap::apply(std::string_view key) const {
  std::string text(key);
  for (const Rule& rule : rules_) {
    auto replaced = rule.pattern.replaced(text, rule.replacement);
    if (!replaced.ok() || *replaced == text) continue;  // a pattern that gave up on this key found nothing in it
    rule.used = true;
    text = std::move(replaced).value();
  }
  return text;
}

std::vector<std::string> NameMap::unused() const {
  std::vector<std::string> unused;
  for (const Rule& rule : rules_)
    if (!rule.used) unused.push_back(rule.pattern.text());
  return unused;
}

}  // namespace ttap
