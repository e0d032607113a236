#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/diff/result/match.h"
#include "analyze/diff/sides/rule_file.h"
#include "analyze/diff/sides/side.h"
#include "core/pattern.h"
#include "ttap/result.h"

namespace ttap {

// Whether the replacement names only groups that the pattern has.
Status check_replacement(const Pattern& pattern, std::string_view replacement);

// An operation of a map: what a key of one side is made of on the other, or that it is left out.
//   drop: {a: PATTERN, b: PATTERN}                      one of them or both
//   slice: {a: PATTERN, of: KEY, at: '[..., 0:64]'}      `a` or `b`: whose keys the pattern is for; KEY is the other's
//   concat: {a: PATTERN, of: [KEY, KEY], dim: -1}
//   transpose: {a: PATTERN, of: KEY, dims: [1, 0]}       without dims: the last two
//   reshape: {a: PATTERN, of: KEY, shape: [..., 12, 64]}
//   sum: {a: PATTERN, of: [KEY, KEY]}
// Each may have `shape`, `at` and `dims`: every KEY is reshaped, then sliced, then transposed.
class MapRule {
 public:
  enum class Operation : uint8_t { kDrop, kSlice, kConcat, kTranspose, kReshape, kSum };
  // Errors do not name the line.
  static Result<MapRule> parse(RuleLine line);

  Operation operation() const { return operation_; }
  uint32_t line() const { return static_cast<uint32_t>(line_); }
  std::string text() const;  // "line 3: slice '(.+)\\.q_proj$'"
  // The pattern for the keys of this side; null when there is none.
  const Pattern* pattern(bool of_a) const;
  // The keys that a key, in which the pattern is found, is made of.
  std::vector<std::string> keys_for(std::string_view key) const;

  // What is done to a tensor, and along which axis several are joined.
  struct Steps {
    std::vector<ValueStep> steps = {};
    int axis = 0;
  };
  // `rows`: Side::recorded_rows().
  Result<Steps> steps_for(const std::vector<int64_t>& shape, const std::optional<RecordedRows>& rows) const;
  MadeValue::Join join() const;

 private:
  struct Slice {
    bool ellipsis = false;
    std::optional<int64_t> begin = {}, end = {};
    int64_t step = 1;
    bool is_whole() const { return !begin && !end && step == 1; }
  };
  static Result<std::vector<Slice>> parse_slices(const RuleField& field);
  Status read_field(const RuleField& field);
  Status check() const;
  Result<std::vector<Slice>> slices_for(const std::vector<int64_t>& shape) const;
  Result<std::vector<int64_t>> shape_for(const std::vector<int64_t>& shape) const;
  Result<std::vector<int64_t>> order_of(size_t axes) const;

  Operation operation_ = Operation::kDrop;
  std::string name_;
  int line_ = 0;
  std::optional<Pattern> a_, b_;
  std::vector<std::string> of_;
  std::vector<Slice> at_;
  std::vector<int64_t> dims_, shape_;
  bool leading_ = false;  // shape_ begins with `...`
  std::optional<int> dim_;
};

}  // namespace ttap
