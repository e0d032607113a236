#pragma once

#include <string>
#include <vector>

#include "analyze/diff/align.h"
#include "memory_side.h"

namespace ttap::test {

// `a = b` for a match by key, `a map b`, `a ~ b` for one by structure, `a op b`, `a bits b` and
// `a for b` for those of ops; `-` stands for nothing.
inline std::string written(const Side& a, const Side& b, const Match& match) {
  const auto key = [](const Side& side, uint32_t tensor) {
    return tensor == kNoTensor ? "-" : to_string(side.tensor(tensor).key());
  };
  const char* by = " = ";
  if (match.by == MatchedBy::kMap) by = " map ";
  if (match.by == MatchedBy::kStructure) by = " ~ ";
  if (match.by == MatchedBy::kOp) by = " op ";
  if (match.by == MatchedBy::kBits) by = " bits ";
  if (match.by == MatchedBy::kPlace) by = " for ";
  if (match.by == MatchedBy::kNothing) by = match.trivial ? " trivial " : " ";
  return key(a, match.a) + by + key(b, match.b);
}

inline std::vector<std::string> aligned(const Side& a, const Side& b, const AlignOptions& options = {}) {
  std::vector<std::string> lines;
  for (const Match& match : align(a, b, options)) lines.push_back(written(a, b, match));
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace ttap::test
