#include "analyze/diff/match/name_map.h"

#include <fmt/format.h>

namespace ttap {

Result<NameMap> NameMap::parse(std::string_view yaml, const std::string& path) {
  NameMap map;
  TTAP_ASSIGN(auto lines, parse_rules(yaml, path, RuleValues::kTextsAndMaps));
  TTAP_TRY(map.add(std::move(lines), path));
  return map;
}

Result<NameMap> NameMap::read(const std::string& path) {
  NameMap map;
  TTAP_ASSIGN(auto lines, read_rules(path, RuleValues::kTextsAndMaps));
  TTAP_TRY(map.add(std::move(lines), path));
  return map;
}

Status NameMap::add(std::vector<RuleLine> lines, const std::string& path) {
  path_ = path;
  for (RuleLine& line : lines) {
    const auto at_line = [number = line.line, &path](Error error) {
      error.message = fmt::format("line {}: {}", number, error.message);
      return std::move(error).with_path(path);
    };
    if (!line.fields.empty()) {
      auto rule = MapRule::parse(std::move(line));
      if (!rule.ok()) return at_line(std::move(rule).error());
      operations_.push_back({std::move(rule).value()});
      continue;
    }
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

std::vector<std::string> NameMap::problems() const {
  std::vector<std::string> problems;
  for (const Operation& operation : operations_) {
    const std::string rule = fmt::format("{}, {}", path_, operation.rule.text());
    if (operation.incomplete > 0) {
      const uint64_t others = operation.incomplete - 1;
      const std::string more = others == 0 ? "" : fmt::format(", and {} {} more", others, others == 1 ? "key" : "keys");
      problems.push_back(fmt::format("{}: {}{}", rule, operation.lacks, more));
    } else if (operation.used == 0) {
      problems.push_back(fmt::format("{} was not needed for any key; `ttap ls RUN` lists the keys", rule));
    }
  }
  return problems;
}

void NameMap::fail(const MapRule& rule, std::string_view key, Error error) const {
  if (!status_.ok()) return;
  error.message = fmt::format("{}: for '{}' {}", rule.text(), key, error.message);
  status_ = std::move(error).with_path(path_);
}

}  // namespace ttap
