#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ttap/result.h"

namespace ttap {

// A field of a rule that is a map: one text, or a list of texts.
struct RuleField {
  std::string name = {};
  std::vector<std::string> values = {};
  bool is_list = false;
};

// One rule of a file that a user wrote, and the line it stands in, counted from 1.
struct RuleLine {
  std::string pattern;
  std::string value;
  int line = 0;
  std::vector<RuleField> fields = {};  // in place of the value, where that is a map
};

enum class RuleValues : uint8_t { kTexts, kTextsAndMaps };

// A YAML map, or a list of maps, of text → text (or map), in the order of the file. What is not that, and a file
// without rules, is an error that names the line. `path` is for errors only in parse_rules().
Result<std::vector<RuleLine>> read_rules(const std::string& path, RuleValues values = RuleValues::kTexts);
Result<std::vector<RuleLine>> parse_rules(std::string_view yaml, const std::string& path,
                                          RuleValues values = RuleValues::kTexts);

}  // namespace ttap
