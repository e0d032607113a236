#include "analyze/diff/tokens/token_passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "store/files/mapped_file.h"

namespace ttap {
namespace {

bool has_token_events(const Rank& rank) {
  if (rank.passes.empty()) return false;
  for (const PassFile* file : {&rank.passes.front(), &rank.passes.back()}) {
    const auto pass = open_found_pass(*file);
    if (!pass.ok()) return false;
    for (size_t i = 0; i < pass->event_count(); ++i)
      if (const std::string_view kind = pass->event(i).kind; kind == kBatchEvent || kind == kLogprobsEvent) return true;
  }
  return false;
}

// What is known of a rank beside its passes.
struct OpenRank {
  const Rank* rank = nullptr;
  ModelFacts model = {};
  std::string placements_json = {};
  bool declares_shards = false;  // a single rank too: what it has may be padded
};

// One step of all ranks. Its rows are those of the first one.
struct Step {
  std::shared_ptr<const Side> side = {};
  std::optional<PassRows> rows = {}, scores = {};
  bool ranks_agree = true;
};

Result<Step> open_step(const std::vector<OpenRank>& ranks, const std::vector<const PassFile*>& files,
                       const ShardRules* shards, Losses& lost) {
  Step step;
  std::vector<RankPart> parts;
  for (size_t i = 0; i < ranks.size(); ++i) {
    TTAP_ASSIGN(Pass pass, open_found_pass(*files[i]));
    lost += losses_of(pass);
    parts.push_back({make_side(std::move(pass), ranks[i].rank->number, ranks[i].model), ranks[i].rank->number,
                     ranks[i].placements_json});
    TTAP_ASSIGN(std::optional<PassRows> rows, read_rows(*parts.back().side));
    if (i > 0) {
      step.ranks_agree = step.ranks_agree && (!rows || !step.rows || same_rows(*rows, *step.rows));
      continue;
    }
    step.rows = std::move(rows);
    TTAP_ASSIGN(step.scores, read_rows(*parts.back().side, kLogprobsEvent));
  }
  if (!step.ranks_agree || !step.rows || step.rows->dummy) return step;
  if (parts.size() == 1 && !ranks.front().declares_shards) {
    step.side = std::move(parts.front().side);
  } else {
    step.side = join_ranks(std::move(parts), shards, nullptr);
  }
  return step;
}

}  // namespace

std::vector<RankGroup> groups_with_tokens(const std::vector<RankGroup>& groups) {
  std::map<uint32_t, RankGroup> by_number;
  for (const RankGroup& group : groups)
    for (const Rank* rank : group)
      if (has_token_events(*rank)) by_number[rank->number].push_back(rank);
  std::vector<RankGroup> found;
  for (const auto& [number, ranks] : by_number) {
    found.resize(std::max(found.size(), ranks.size()));
    for (size_t k = 0; k < ranks.size(); ++k) found[k].push_back(ranks[k]);
  }
  return found;
}

Result<TokenPasses> open_token_passes(const RankGroup& ranks, const ShardRules* shards, Losses& lost) {
  TokenPasses found;
  std::vector<OpenRank> opened;
  std::map<uint32_t, std::vector<const PassFile*>> steps;
  for (const Rank* rank : ranks) {
    opened.push_back({rank, read_model_facts(rank->path),
                      ranks.size() > 1 ? side_file_text(rank->path / "placements.json") : std::string()});
    for (const auto& [name, facts] : opened.back().model.modules)
      opened.back().declares_shards = opened.back().declares_shards || !facts.shards.empty();
    for (const PassFile& file : rank->passes) steps[file.number].push_back(&file);
  }
  for (const auto& [number, files] : steps) {
    if (files.size() != ranks.size()) {
      found.notes.push_back(
          fmt::format("pass {} is not compared: only {} of {} ranks have it", number, files.size(), ranks.size()));
      continue;
    }
    Losses of_step;
    TTAP_ASSIGN(Step step, open_step(opened, files, shards, of_step));
    if (!step.ranks_agree) return TokenPasses{.ranks_agree = false};
    if (step.scores) found.scores.push_back(std::move(*step.scores));
    if (step.side == nullptr) continue;
    lost += of_step;
    if (step.rows->weights) {
      found.weights.push_back(std::move(step.side));
    } else {
      found.sides.push_back(std::move(step.side));
      found.rows.push_back(std::move(*step.rows));
      found.numbers.push_back(number);
    }
  }
  return found;
}

}  // namespace ttap
