#include <fmt/format.h>

#include <charconv>
#include <string>

#include "analyze/diff/ranks/shards.h"
#include "analyze/diff/sides/rule_file.h"

namespace ttap {

namespace {

std::optional<ShardRule> parse_rule(std::string_view text) {
  const auto next_word = [&] {
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    const std::string_view word = text.substr(0, text.find_first_of(" \t"));
    text.remove_prefix(word.size());
    return word;
  };
  const std::string_view kind = next_word(), dim = next_word();
  if (!next_word().empty()) return std::nullopt;
  if (kind == "sum" && dim.empty()) return ShardRule{.kind = ShardRule::Kind::kSum};
  if (kind == "replicated" && dim.empty()) return ShardRule{.kind = ShardRule::Kind::kReplicated};
  if (kind != "concat") return std::nullopt;
  ShardRule rule{.kind = ShardRule::Kind::kConcat};
  const auto [end, error] = std::from_chars(dim.data(), dim.data() + dim.size(), rule.dim);
  if (dim.empty() || error != std::errc() || end != dim.data() + dim.size()) return std::nullopt;
  return rule;
}

}  // namespace

Result<ShardRules> ShardRules::read(const std::string& path) {
  TTAP_ASSIGN(const auto lines, read_rules(path));
  return from_lines(lines, path);
}

Result<ShardRules> ShardRules::parse(std::string_view yaml, const std::string& path) {
  TTAP_ASSIGN(const auto lines, parse_rules(yaml, path));
  return from_lines(lines, path);
}

Result<ShardRules> ShardRules::from_lines(const std::vector<RuleLine>& lines, const std::string& path) {
  ShardRules rules;
  for (const RuleLine& line : lines) {
    const auto rule = parse_rule(line.value);
    if (!rule)
      return Error{.code = ErrorCode::kInvalidArgument,
                   .message = fmt::format("line {}: '{}' says nothing about shards", line.line, line.value),
                   .path = path,
                   .hint = "write `concat DIM` (a number, counted from the end when negative), `sum` or `replicated`"};
    auto pattern = Pattern::compile(line.pattern);
    if (!pattern.ok()) {
      Error error = std::move(pattern).error();
      error.message = fmt::format("line {}: {}", line.line, error.message);
      return std::move(error).with_path(path);
    }
    rules.rules_.push_back({std::move(pattern).value(), *rule});
  }
  return rules;
}

std::optional<ShardRule> ShardRules::find(std::string_view key) const {
  for (const Rule& rule : rules_) {
    if (!rule.pattern.found_in(key)) continue;
    rule.used = true;
    return rule.rule;
  }
  return std::nullopt;
}

std::vector<std::string> ShardRules::unused() const {
  std::vector<std::string> patterns;
  for (const Rule& rule : rules_)
    if (!rule.used) patterns.push_back(rule.pattern.text());
  return patterns;
}

}  // namespace ttap
