#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/diff/match/map_rule.h"
#include "analyze/diff/sides/rule_file.h"
#include "core/pattern.h"
#include "ttap/result.h"

namespace ttap {

// A mapping file: a YAML map, or a list of maps, of regex → replacement, and operations (MapRule). Each replacement is
// tried in its order on the whole text of a key of B, every match replaced; what comes out is looked for among A's
// keys. Operations come before. Not for several threads.
class NameMap {
 public:
  static Result<NameMap> read(const std::string& path);
  static Result<NameMap> parse(std::string_view yaml, const std::string& path);
  std::string apply(std::string_view key) const;
  std::vector<std::string> unused() const;  // rules that changed nothing so far, as their patterns

  // What became of an operation.
  struct Operation {
    MapRule rule;
    mutable uint64_t used = 0;
    mutable uint64_t incomplete = 0;       // keys that are made of one which is not there
    mutable std::string lacks = {};        // in words, of the first
  };
  const std::deque<Operation>& operations() const { return operations_; }
  // "line 3: slice '…' was not needed for any key", and what was missing where one could not be applied.
  std::vector<std::string> problems() const;
  // An operation could not be applied to a tensor that it names: the first error counts.
  void fail(const MapRule& rule, std::string_view key, Error error) const;
  const Status& status() const { return status_; }

 private:
  struct Rule {
    Pattern pattern;
    std::string replacement;
    mutable bool used = false;
  };
  Status add(std::vector<RuleLine> lines, const std::string& path);
  std::vector<Rule> rules_;
  std::deque<Operation> operations_;
  std::string path_;
  mutable Status status_;
};

}  // namespace ttap
