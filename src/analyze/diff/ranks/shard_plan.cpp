#include "analyze/diff/ranks/shard_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace ttap {

namespace {

constexpr std::string_view kLocalStep = "/_local_tensor";

// "Shard(-1)" and the like; nothing for what cannot be put together from values alone.
std::optional<Join> join_of_placement(std::string_view placement) {
  if (placement == "Replicate()") return Join{.kind = Join::Kind::kReplicated};
  if (placement == "Partial(sum)") return Join{.kind = Join::Kind::kSum};
  if (placement == "Partial(avg)") return Join{.kind = Join::Kind::kAverage};
  constexpr std::string_view kShard = "Shard(";
  if (!placement.starts_with(kShard) || !placement.ends_with(')')) return std::nullopt;
  placement.remove_prefix(kShard.size());
  placement.remove_suffix(1);
  Join join{.kind = Join::Kind::kConcat};
  const auto [end, error] = std::from_chars(placement.data(), placement.data() + placement.size(), join.dim);
  if (placement.empty() || error != std::errc() || end != placement.data() + placement.size()) return std::nullopt;
  return join;
}

Join join_of_rule(const ShardRule& rule) {
  switch (rule.kind) {
    case ShardRule::Kind::kConcat: return {.kind = Join::Kind::kConcat, .dim = rule.dim};
    case ShardRule::Kind::kSum: return {.kind = Join::Kind::kSum};
    case ShardRule::Kind::kReplicated: break;
  }
  return {.kind = Join::Kind::kReplicated};
}

// By role and path, else by role.
const ShardFacts* declared_shard(const Part& part) {
  const TensorRecord record = record_of(part);
  const ModuleFacts* module = part.side->module(record.name);
  if (module == nullptr || module->shards.empty()) return nullptr;
  auto found = module->shards.find(fmt::format("{}{}", record.role, record.path));
  if (found == module->shards.end()) found = module->shards.find(record.role);
  return found != module->shards.end() ? &found->second : nullptr;
}

Join join_of_declared(const ShardFacts& shard) {
  if (shard.is_sum) return {.kind = Join::Kind::kSum};
  Join join{.kind = Join::Kind::kConcat, .dim = shard.dim, .size = shard.size};
  for (size_t i = 0; i < shard.sizes.size(); ++i)
    join.pieces.push_back({.size = shard.sizes[i], .copies = i < shard.copies.size() ? shard.copies[i] : 1});
  return join;
}

void place_in_line(ShardPlan& plan) {
  for (size_t i = 0; i < plan.parts.size(); ++i) plan.parts[i].coordinate = {static_cast<int64_t>(i)};
}

bool all_hashes_equal(std::span<const Part> parts) {
  const TensorRecord first = record_of(parts.front());
  return std::ranges::all_of(parts, [&](const Part& part) {
    const TensorRecord record = record_of(part);
    return first.has_fingerprint && record.has_fingerprint && record.dtype == first.dtype &&
           record.fingerprint.hash == first.fingerprint.hash;
  });
}

// The only dimension in which the parts are shorter than the whole, if together they are as long.
std::optional<int> split_dimension(std::span<const Part> parts, std::span<const int64_t> whole) {
  std::optional<int> split;
  for (size_t dim = 0; dim < whole.size(); ++dim) {
    int64_t total = 0;
    bool full = true;
    for (const Part& part : parts) {
      const auto shape = record_of(part).shape;
      if (shape.size() != whole.size() || __builtin_add_overflow(total, shape[dim], &total)) return std::nullopt;
      full = full && shape[dim] == whole[dim];
    }
    if (full) continue;
    if (split || total != whole[dim]) return std::nullopt;
    split = static_cast<int>(dim);
  }
  return split;
}

}  // namespace

TensorRecord whole_record(TensorRecord record) {
  if (record.path.ends_with(kLocalStep)) record.path.remove_suffix(kLocalStep.size());
  return record;
}

ShardPlanner::ShardPlanner(const ShardRules* rules, const Side* reference, std::vector<Spreads> spreads, bool declares)
    : rules_(rules), reference_(reference), spreads_(std::move(spreads)), declares_(declares) {}

ShardPlan ShardPlanner::plan(const std::string& key, std::vector<Part> parts, std::span<const size_t> which) {
  ShardPlan plan{.parts = std::move(parts), .wanted = which.size()};
  if (const auto rule = rules_ != nullptr ? rules_->find(key) : std::nullopt) {
    plan.joins = {join_of_rule(*rule)};
    plan.source = "--shards";
    place_in_line(plan);
  } else if (!by_placements(plan, which) && !by_declaration(plan)) {
    by_shape(plan, key);
  }
  return plan;
}

// False when the recording does not say it.
bool ShardPlanner::by_placements(ShardPlan& plan, std::span<const size_t> which) const {
  std::vector<const Spread*> found;
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    const Spreads& known = spreads_[which[i]];
    if (known.empty()) return false;
    const auto spread = known.find(to_string(record_of(plan.parts[i]).key()));
    if (spread == known.end()) return false;
    found.push_back(&spread->second);
  }
  plan.source = "placements";
  const Spread& first = *found.front();
  plan.wanted = 1;
  for (const int64_t size : first.mesh_shape)
    if (__builtin_mul_overflow(plan.wanted, static_cast<uint64_t>(size), &plan.wanted)) plan.wanted = UINT64_MAX;
  std::vector<Part> inside;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i]->placements != first.placements || found[i]->mesh_shape != first.mesh_shape) {
      plan.problem = fmt::format("ranks {} and {} say different things of how it is spread", plan.parts[0].rank,
                                 plan.parts[i].rank);
      return true;
    }
    if (found[i]->outside) continue;
    inside.push_back(plan.parts[i]);
    inside.back().coordinate = found[i]->coordinate;
  }
  if (inside.empty()) {
    plan.problem = "no rank holds a part of it";
    return true;
  }
  for (const std::string& placement : first.placements) {
    const auto join = join_of_placement(placement);
    if (!join) {
      plan.joins.clear();
      plan.problem = fmt::format("its placement is {}", placement);
      return true;
    }
    plan.joins.push_back(*join);
  }
  plan.parts = std::move(inside);
  return true;
}

// Likewise.
bool ShardPlanner::by_declaration(ShardPlan& plan) {
  const ShardFacts* first = declared_shard(plan.parts.front());
  if (first == nullptr) return false;
  plan.source = "declared";
  place_in_line(plan);
  for (const Part& part : plan.parts)
    if (const ShardFacts* other = declared_shard(part); other == nullptr || *other != *first) {
      plan.problem = fmt::format("ranks {} and {} declare different things of it", plan.parts.front().rank, part.rank);
      return true;
    }
  plan.joins = {join_of_declared(*first)};
  return true;
}

void ShardPlanner::by_shape(ShardPlan& plan, const std::string& key) {
  place_in_line(plan);
  const auto first = record_of(plan.parts.front()).shape;
  const bool alike = std::ranges::all_of(
      plan.parts, [&](const Part& part) { return std::ranges::equal(record_of(part).shape, first); });
  const auto whole = reference_shape(key);
  const bool as_whole = alike && (declares_ || (whole && std::ranges::equal(*whole, first)));
  // The same everywhere needs no guess; shards that happen to be equal are shorter than the reference.
  const bool plain = plan.parts.size() == 1 || (alike && all_hashes_equal(plan.parts) && (as_whole || !whole));
  if (plain || as_whole) {
    plan.joins = {{.kind = Join::Kind::kReplicated}};
    plan.guessed = !plain;
  } else if (!whole) {
    plan.problem = "nothing says how the parts belong together; name it in a file for --shards";
  } else if (const auto dim = split_dimension(plan.parts, *whole)) {
    plan.joins = {{.kind = Join::Kind::kConcat, .dim = *dim}};
    plan.guessed = true;
  } else {
    plan.problem = "the parts do not add up to the shape of the other side; name it in a file for --shards";
  }
  if (plan.guessed) plan.source = declares_ ? "nothing else is declared" : "guessed from the shape";
}

std::optional<std::span<const int64_t>> ShardPlanner::reference_shape(const std::string& key) {
  if (reference_ == nullptr) return std::nullopt;
  if (reference_keys_.empty())
    for (size_t i = 0; i < reference_->tensor_count(); ++i)
      reference_keys_.try_emplace(to_string(whole_record(reference_->tensor(i)).key()), i);
  const auto found = reference_keys_.find(key);
  if (found == reference_keys_.end()) return std::nullopt;
  return reference_->tensor(found->second).shape;
}

}  // namespace ttap
