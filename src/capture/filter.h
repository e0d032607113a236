#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ttap/record.h"
#include "ttap/recorder.h"
#include "ttap/result.h"

struct pcre2_real_code_8;

namespace ttap {

// A compiled PCRE2 pattern; matching is thread-safe.
class Pattern {
 public:
  static Result<Pattern> compile(const std::string& text);
  bool found_in(std::string_view subject) const;
  const std::string& text() const { return text_; }

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  Pattern(std::string text, pcre2_real_code_8* code) : text_(std::move(text)), code_(code) {}
  std::string text_;
  std::unique_ptr<pcre2_real_code_8, Free> code_;
};

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
