#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/diff/sides/side.h"
#include "core/pattern.h"

// A tensor that several ranks hold parts of, as one.
namespace ttap {

struct RuleLine;

struct ShardRule {
  enum class Kind : uint8_t { kConcat, kSum, kReplicated } kind = Kind::kReplicated;
  int dim = 0;  // of kConcat; counted from the end when negative
};

// A rule file: a YAML map, or a list of maps, of regex → `concat DIM`, `sum` or `replicated`. The first regex found in
// a key counts.
class ShardRules {
 public:
  static Result<ShardRules> read(const std::string& path);
  static Result<ShardRules> parse(std::string_view yaml, const std::string& path);
  std::optional<ShardRule> find(std::string_view key) const;
  std::vector<std::string> unused() const;  // patterns that were found in no key so far, or never came first

 private:
  struct Rule {
    Pattern pattern;
    ShardRule rule;
    mutable bool used = false;
  };
  static Result<ShardRules> from_lines(const std::vector<RuleLine>& lines, const std::string& path);
  std::vector<Rule> rules_;
};

// One rank's pass, and what its recording says about how its tensors are spread (placements.json beside the passes;
// empty when it says nothing).
struct RankPart {
  std::unique_ptr<Side> side;
  uint32_t rank = 0;
  std::string placements_json = {};
};

// The ranks' passes as one. A tensor is put together by the first of: `rules`, its placements as recorded, what its
// module declares (ModuleFacts::shards; where one module does, what is not declared is replicated), and the shape that
// `reference` has under the same key (the same shape: replicated; one dimension as long as those of all ranks together:
// concat), which note() then says was guessed. What cannot be put together is the first rank's, with a note that says
// why.
//
// Tensors and events stand in the order of the first rank; what only others have follows what it follows there. A
// DTensor goes by its own key, without the `/_local_tensor` under which its part was recorded. A tensor that was put
// together has a fingerprint only where all ranks hold the whole of it, with the same hash.
std::unique_ptr<Side> join_ranks(std::vector<RankPart> parts, const ShardRules* rules, const Side* reference);

}  // namespace ttap
