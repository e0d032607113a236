#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/pattern.h"
#include "ttap/record.h"
#include "ttap/recorder.h"
#include "ttap/result.h"

namespace ttap {

// Which names are recorded, and at which level. Every pattern is tried on every name, so that the counts tell which
// patterns match nothing; that happens once per name (name_table.h).
class Filter {
 public:
  static Result<Filter> create(const RecorderOptions& options);

  // The level for a name; nothing when it is not recorded.
  std::optional<Level> decide(std::string_view name);
  // Each pattern with the number of names it was found in.
  std::vector<std::pair<std::string, uint64_t>> matches() const;

 private:
  struct Rule {
    Pattern pattern;
    Level level;
    uint64_t matched = 0;
  };
  bool everything_ = true;
  std::vector<Rule> names_;  // the level is not used
  std::vector<Rule> levels_;
  Level level_ = Level::kFull;
};

}  // namespace ttap
