#include "report/run/selection.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/number_set.h"
#include "store/segment/segment_writer.h"

namespace ttap {
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

Error nothing_selected(const PassSelection& asked, const Run& run) {
  std::vector<uint32_t> ranks;
  std::vector<uint32_t> passes;
  for (const Rank& rank : run.ranks) {
    ranks.push_back(rank.number);
    for (const PassFile& pass : rank.passes) passes.push_back(pass.number);
  }
  std::ranges::sort(passes);
  std::string words;
  if (!asked.passes.empty()) words += fmt::format(" --pass {}", asked.passes);
  if (!asked.ranks.empty()) words += fmt::format(" --rank {}", asked.ranks);
  return Error{.code = ErrorCode::kNotFound,
               .message = fmt::format("nothing here for{}", words),
               .path = run.path.string(),
               .hint = fmt::format("there are passes {} of ranks {}", passes.empty() ? "(none)" : ranges_text(passes),
                                   ranges_text(ranks))};
}

}  // namespace

Result<Selection> select_passes(const PassSelection& asked) {
  TTAP_ASSIGN(const auto passes, parse_if_given(asked.passes, "--pass"));
  TTAP_ASSIGN(const auto ranks, parse_if_given(asked.ranks, "--rank"));
  Selection selection;
  if (!asked.filter.empty()) {
    auto filter = Pattern::compile(asked.filter);
    if (!filter.ok()) {
      Error error = std::move(filter).error();
      error.message = fmt::format("--filter: {}", error.message);
      error.hint = "write a literal '.', '(' or '[' with a backslash before it";
      return error;
    }
    selection.filter = std::move(filter).value();
  }
  TTAP_ASSIGN(Run run, Run::open(asked.path));
  selection.run = std::make_unique<const Run>(std::move(run));
  for (const Rank& rank : selection.run->ranks) {
    if (ranks && !ranks->contains(rank.number)) continue;
    for (const PassFile& file : rank.passes)
      if (!passes || passes->contains(file.number)) selection.passes.push_back({&rank, &file});
  }
  if (selection.passes.empty() && (passes || ranks)) return nothing_selected(asked, *selection.run);
  return selection;
}

Result<Selection> select_some_passes(const PassSelection& asked) {
  TTAP_ASSIGN(Selection selection, select_passes(asked));
  if (selection.passes.empty())
    return Error{.code = ErrorCode::kNotFound,
                 .message = "no pass has been recorded here",
                 .path = selection.run->path.string(),
                 .hint = "was the program stopped before its first step, or nothing selected? ttap ls --coverage says"};
  return selection;
}

Result<Run> select_ranks(const PassSelection& asked) {
  TTAP_ASSIGN(const auto ranks, parse_if_given(asked.ranks, "--rank"));
  TTAP_ASSIGN(Run run, Run::open(asked.path));
  if (!ranks) return run;
  Run selected{.path = run.path, .number = run.number, .runs = run.runs};
  for (const Rank& rank : run.ranks)
    if (ranks->contains(rank.number)) selected.ranks.push_back(rank);
  if (selected.ranks.empty()) return nothing_selected(asked, run);
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

}  // namespace ttap
