#include "analyze/diff/tokens/token_passes.h"

namespace ttap {

Result<TokenPasses> open_token_passes(const Rank& rank, Losses& lost) {
  TokenPasses found;
  const ModelFacts model = read_model_facts(rank.path);
  for (const PassFile& file : rank.passes) {
    TTAP_ASSIGN(Pass pass, open_found_pass(file));
    const Losses of_pass = losses_of(pass);
    const std::shared_ptr<const Side> side = make_side(std::move(pass), rank.number, model);
    TTAP_ASSIGN(std::optional<PassRows> scores, read_rows(*side, kLogprobsEvent));
    if (scores) found.scores.push_back(std::move(*scores));
    TTAP_ASSIGN(std::optional<PassRows> rows, read_rows(*side));
    if (!rows || rows->dummy) continue;
    lost += of_pass;
    if (rows->weights) {
      found.weights.push_back(side);
    } else {
      found.sides.push_back(side);
      found.rows.push_back(std::move(*rows));
      found.numbers.push_back(file.number);
    }
  }
  return found;
}

}  // namespace ttap
