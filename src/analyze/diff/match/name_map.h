#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analyze/diff/sides/rule_file.h"
#include "core/pattern.h"
#include "ttap/result.h"

namespace ttap {

// A mapping file: a YAML map, or a list of maps, of regex → replacement. Each rule is tried in its order on the whole
// text of a key of B, every match replaced; what comes out is looked for among A's keys. Not for several threads.
class NameMap {
 public:
  static Result<NameMap> read(const std::string& path);
  static Result<NameMap> parse(std::string_view yaml, const std::string& path);
  std::string apply(std::string_view key) const;
  std::vector<std::string> unused() const;  // rules that changed nothing so far

 private:
  struct Rule {
    Pattern pattern;
    std::string replacement;
    mutable bool used = false;
  };
  Status add(std::vector<RuleLine> lines, const std::string& path);
  std::vector<Rule> rules_;
};

}  // namespace ttap
