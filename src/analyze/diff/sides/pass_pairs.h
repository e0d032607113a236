#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ttap/result.h"
#include "ttap/run.h"

// Which pass of one run is which of the other.
namespace ttap {

// Pairs of numbers as people write them: `3`, `3:0` (A's 3 with B's 0), `0-4:10-14`, several with commas.
class NumberPairs {
 public:
  static Result<NumberPairs> parse(std::string_view text, std::string_view option);
  std::vector<uint32_t> partners_of(uint32_t a) const;
  bool wants_a(uint32_t a) const { return !partners_of(a).empty(); }
  bool wants_b(uint32_t b) const;
  // The first pair that asks for a number that is not among these.
  std::optional<std::string> missing(const std::set<uint32_t>& of_a, const std::set<uint32_t>& of_b) const;

 private:
  struct Range {
    uint32_t first_a, last_a, first_b;
  };
  std::vector<Range> ranges_;
};

// One pass of each, of one rank; or, where a side is spread over ranks, of several, by rank.
struct PassPair {
  std::vector<std::pair<const Rank*, const PassFile*>> a = {};
  std::vector<std::pair<const Rank*, const PassFile*>> b = {};
};

// The processes of one program, one of each rank, by rank.
using RankGroup = std::vector<const Rank*>;

struct PassPairing {
  std::vector<PassPair> pairs = {};
  std::vector<RankGroup> groups_a = {}, groups_b = {};  // those that `ranks` chooses
  std::vector<std::string> only_a = {};
  std::vector<std::string> only_b = {};
  std::vector<std::string> warnings = {};
};

// Ranks by number and passes by number, unless told otherwise. Runs of different numbers of ranks, or any when `join`
// is set, are paired as wholes: all ranks of a pass together. A run without a common pass number is paired in order,
// with a warning. Fails when the options ask for what is not there or nothing can be paired.
Result<PassPairing> pair_passes(const Run& a, const Run& b, const std::string& passes, const std::string& ranks,
                                bool join);

}  // namespace ttap
