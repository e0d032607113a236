#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyze/diff/ranks/assembly.h"
#include "analyze/diff/ranks/placements.h"
#include "analyze/diff/ranks/shards.h"
#include "analyze/diff/sides/side.h"

namespace ttap {

// A recorded tensor without the step to the local part of a DTensor.
TensorRecord whole_record(TensorRecord record);

// How the parts of a tensor become one, and who says so.
struct ShardPlan {
  std::vector<Join> joins = {};
  std::vector<Part> parts = {};  // with their coordinates
  uint64_t wanted = 0;           // parts that there should be
  std::string source = {};       // "--shards", "placements", "declared"; empty: it is plain
  bool guessed = false;          // from the shape alone
  std::string problem = {};      // why there are no joins
};

using Spreads = std::unordered_map<std::string, Spread>;

// Makes the plans of a join, one tensor after the other.
class ShardPlanner {
 public:
  // `spreads`: one per rank. Rules and reference may be null and live longer. `declares`: the recording says which
  // tensors are shards, so that others are not.
  ShardPlanner(const ShardRules* rules, const Side* reference, std::vector<Spreads> spreads, bool declares);

  // `parts` are those of the ranks at the positions `which`; `key` is that of the whole.
  ShardPlan plan(const std::string& key, std::vector<Part> parts, std::span<const size_t> which);

 private:
  bool by_placements(ShardPlan& plan, std::span<const size_t> which) const;
  static bool by_declaration(ShardPlan& plan);
  void by_shape(ShardPlan& plan, const std::string& key);
  std::optional<std::span<const int64_t>> reference_shape(const std::string& key);

  const ShardRules* rules_;
  const Side* reference_;
  std::vector<Spreads> spreads_;
  bool declares_;
  std::unordered_map<std::string, size_t> reference_keys_;
};

}  // namespace ttap
