#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ttap/result.h"

namespace ttap {

// One rule of a file that a user wrote, and the line it stands in, counted from 1.
struct RuleLine {
  std::string pattern;
  std::string value;
  int line = 0;
};

// A YAML map, or a list of maps, of text → text, in the order of the file. What is not that, and a file without rules,
// is an error that names the line. `path` is for errors only in parse_rules().
Result<std::vector<RuleLine>> read_rules(const std::string& path);
Result<std::vector<RuleLine>> parse_rules(std::string_view yaml, const std::string& path);

}  // namespace ttap
