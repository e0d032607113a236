#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/pattern.h"
#include "ttap/run.h"

namespace ttap {

// Which passes of a run, as it is asked for.
struct PassSelection {
  std::string path;
  std::string passes;  // numbers, as NumberSet takes them; empty for all
  std::string ranks;   // likewise
  std::string filter;  // a pattern that is found in the keys of tensors; empty for all
};

// What it selects: the passes, rank by rank, by number; none of them is open yet.
struct SelectedPass {
  const Rank* rank;
  const PassFile* file;
};
struct Selection {
  std::unique_ptr<const Run> run;  // what `passes` points into
  std::vector<SelectedPass> passes = {};
  std::optional<Pattern> filter = {};

  bool wants(const TensorRecord& tensor) const { return !filter || filter->found_in(to_string(tensor.key())); }
};

// Fails when passes, ranks or filter is not well formed, or asks for what is not there.
Result<Selection> select_passes(const PassSelection& asked);
// As above, and a run without a single pass is an error too.
Result<Selection> select_some_passes(const PassSelection& asked);

// The run with only the ranks that are selected, whether they have passes or not.
Result<Run> select_ranks(const PassSelection& asked);

// Opens one of them; a pass that was finished and renamed since it was found is opened under its new name.
Result<Pass> open_pass(const SelectedPass& selected);

}  // namespace ttap
