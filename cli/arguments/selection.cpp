#include "cli/arguments/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/arguments/command_line.h"
#include "cli/arguments/number_set.h"
#include "store/segment/segment_writer.h"

namespace ttap::cli {
namespace {

Result<std::optional<NumberSet>> parse_if_given(const std::string& text, std::string_view option) {
  if (text.empty()) return std::optional<NumberSet>{};
  auto set = NumberSet::parse(text);
  if (!set.ok()) {
    Error error = std::move(set).error();
    error.message = fmt::format("{}: {}", option, error.message);
    return error;
  }
  return std::optional(std::move(set).value());
}

Error nothing_selected(const SelectionOptions& options, const Run& run) {
  std::vector<uint32_t> ranks;
  std::vector<uint32_t> passes;
  for (const Rank& rank : run.ranks) {
    ranks.push_back(rank.number);
    for (const PassFile& pass : rank.passes) passes.push_back(pass.number);
  }
  std::ranges::sort(passes);
  std::string asked;
  if (!options.passes.empty()) asked += fmt::format(" --pass {}", options.passes);
  if (!options.ranks.empty()) asked += fmt::format(" --rank {}", options.ranks);
  return Error{.code = ErrorCode::kNotFound,
               .message = fmt::format("nothing here for{}", asked),
               .path = run.path.string(),
               .hint = fmt::format("there are passes {} of ranks {}", passes.empty() ? "(none)" : ranges_text(passes),
                                   ranges_text(ranks))};
}

}  // namespace

void add_run_argument(Verb& verb, SelectionOptions& options) {
  verb.add_option("RUN", options.path,
                  "A run, a rank directory, or one pass: .ttap, .pt, .safetensors, a folder of .npy")
      .required()
      .type_name("");
  add_output_options(verb, options);
}

void add_output_options(Verb& verb, SelectionOptions& options) {
  verb.add_flag("--json", options.json, "One JSON document instead of text (docs/commands.md)");
  static const std::map<std::string, ColorChoice> kChoices = {
      {"auto", ColorChoice::kAuto}, {"always", ColorChoice::kAlways}, {"never", ColorChoice::kNever}};
  verb.add_option("--color", options.color, kChoices,
                  "auto (default: on a terminal, unless NO_COLOR is set), always or never")
      .type_name("WHEN");
}

void add_pass_and_rank(Verb& verb, SelectionOptions& options) {
  verb.add_option("--pass", options.passes, "Only these passes: 3, or 0,2, or 1,4-7").type_name("N[,M-K]");
  verb.add_option("--rank", options.ranks, "Only these ranks, written likewise").type_name("R[,S-T]");
}

void add_filter(Verb& verb, SelectionOptions& options, const std::string& help) {
  verb.add_option("--filter", options.filter, help).type_name("REGEX");
}

Result<Selection> select_passes(const SelectionOptions& options) {
  TTAP_ASSIGN(const auto passes, parse_if_given(options.passes, "--pass"));
  TTAP_ASSIGN(const auto ranks, parse_if_given(options.ranks, "--rank"));
  Selection selection;
  if (!options.filter.empty()) {
    auto filter = Pattern::compile(options.filter);
    if (!filter.ok()) {
      Error error = std::move(filter).error();
      error.message = fmt::format("--filter: {}", error.message);
      error.hint = "write a literal '.', '(' or '[' with a backslash before it";
      return error;
    }
    selection.filter = std::move(filter).value();
  }
  TTAP_ASSIGN(Run run, Run::open(options.path));
  selection.run = std::make_unique<const Run>(std::move(run));
  for (const Rank& rank : selection.run->ranks) {
    if (ranks && !ranks->contains(rank.number)) continue;
    for (const PassFile& file : rank.passes)
      if (!passes || passes->contains(file.number)) selection.passes.push_back({&rank, &file});
  }
  if (selection.passes.empty() && (passes || ranks)) return nothing_selected(options, *selection.run);
  return selection;
}

Result<Selection> select_some_passes(const SelectionOptions& options) {
  TTAP_ASSIGN(Selection selection, select_passes(options));
  if (selection.passes.empty())
    return Error{.code = ErrorCode::kNotFound,
                 .message = "no pass has been recorded here",
                 .path = selection.run->path.string(),
                 .hint = "was the program stopped before its first step, or nothing selected? ttap ls --coverage says"};
  return selection;
}

Result<Run> select_ranks(const SelectionOptions& options) {
  TTAP_ASSIGN(const auto ranks, parse_if_given(options.ranks, "--rank"));
  TTAP_ASSIGN(Run run, Run::open(options.path));
  if (!ranks) return run;
  Run selected{.path = run.path};
  for (const Rank& rank : run.ranks)
    if (ranks->contains(rank.number)) selected.ranks.push_back(rank);
  if (selected.ranks.empty()) return nothing_selected(options, run);
  return selected;
}

Result<Pass> open_pass(const SelectedPass& selected) {
  auto pass = Pass::open(selected.file->path);
  if (pass.ok() || pass.error().code != ErrorCode::kNotFound) return pass;
  const std::string name = selected.file->path.string();
  if (!name.ends_with(kIncompleteSuffix)) return pass;
  auto finished = Pass::open(name.substr(0, name.size() - kIncompleteSuffix.size()));
  return finished.ok() ? std::move(finished) : std::move(pass);
}

}  // namespace ttap::cli
