#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/pattern.h"
#include "report/text/terminal.h"
#include "ttap/run.h"

namespace ttap::cli {

class Verb;

// The options that commands share, as given.
struct SelectionOptions {
  std::string path;
  std::string passes;  // --pass; empty for all
  std::string ranks;   // --rank
  std::string filter;  // --filter
  ColorChoice color = ColorChoice::kAuto;
  bool json = false;
};
void add_run_argument(Verb& verb, SelectionOptions& options);    // RUN, --color, --json
void add_output_options(Verb& verb, SelectionOptions& options);  // --color, --json
void add_pass_and_rank(Verb& verb, SelectionOptions& options);
void add_filter(Verb& verb, SelectionOptions& options, const std::string& help);

// What they select: the passes, rank by rank, by number; none of them is open yet.
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

// Fails when --pass, --rank or --filter is not well formed, or asks for what is not there.
Result<Selection> select_passes(const SelectionOptions& options);
// As above, and a run without a single pass is an error too.
Result<Selection> select_some_passes(const SelectionOptions& options);

// The run with only the ranks that --rank selects, whether they have passes or not.
Result<Run> select_ranks(const SelectionOptions& options);

// Opens one of them; a pass that was finished and renamed since it was found is opened under its new name.
Result<Pass> open_pass(const SelectedPass& selected);

}  // namespace ttap::cli
