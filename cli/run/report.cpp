#include "cli/run/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "cli/coverage/file.h"
#include "cli/messages/progress.h"
#include "cli/run/child_process.h"
#include "report/run/describe.h"
#include "report/text/text.h"

namespace ttap::cli {
namespace fs = std::filesystem;
namespace {

constexpr size_t kNamed = 3;   // names of a line; the others are counted
constexpr size_t kGroups = 4;  // lines of one kind

// Texts, each once, in the order in which they came.
class Names {
 public:
  void add(const std::string& name) {
    if (seen_.insert(name).second) names_.push_back(name);
  }
  size_t size() const { return names_.size(); }
  const std::vector<std::string>& all() const { return names_; }
  // The first few: `a, b, c and 5 more`.
  std::string text() const {
    std::string text;
    for (size_t i = 0; i < std::min(names_.size(), kNamed); ++i)
      text += fmt::format("{}{}", i == 0 ? "" : ", ", printable(names_[i]));
    if (names_.size() > kNamed) text += fmt::format(" and {} more", names_.size() - kNamed);
    return text;
  }

 private:
  std::vector<std::string> names_;
  std::set<std::string> seen_;
};

// Names by their reason, the reasons in the order in which they came.
class Groups {
 public:
  Names& of(const std::string& reason) {
    reasons_.add(reason);
    return names_[reason];
  }
  // line(reason, names) for the first few reasons; how many names have another.
  template <class Line>
  size_t for_the_first(Line line) const {
    size_t more = 0;
    for (size_t i = 0; i < reasons_.size(); ++i) {
      const std::string& reason = reasons_.all()[i];
      i < kGroups ? line(reason, names_.at(reason)) : void(more += names_.at(reason).size());
    }
    return more;
  }

 private:
  Names reasons_;
  std::map<std::string, Names> names_;
};

// All ranks together.
class RunReport {
 public:
  RunReport(const Run& run, const std::set<fs::path>& before) {
    uint64_t total = 0;
    for (const Rank& rank : run.ranks) total += rank.passes.size();
    Progress progress("reading what was recorded", total);
    for (const Rank& rank : run.ranks) {
      if (before.contains(rank.path)) {
        ++ranks_before_;
        continue;
      }
      ++ranks_;
      const DropCounts of_passes = add_passes(rank, progress);
      const auto coverage = read_coverage(rank.path);
      if (coverage.ok() && *coverage) {
        add_coverage(**coverage);
      } else {
        drops_ += of_passes;
        const std::string why = coverage.ok() ? why_no_coverage(rank) : coverage.error().message;
        (coverage.ok() ? without_coverage_ : bad_coverage_).of(why).add(rank_text(rank));
      }
    }
  }

  bool has_ranks() const { return ranks_ > 0; }
  bool has_tensors() const { return tensors_ > 0; }

  void headline(const fs::path& directory, Output& out) const {
    out.print("{}: {}, {}, {}, {}\n", printable(directory.string()), count_text(ranks_, "rank", "ranks"),
              count_text(passes_, "pass", "passes"), count_text(tensors_, "tensor", "tensors"), bytes_text(bytes_));
  }

  void details(Output& out) const {
    const auto line = [&](const std::string& text, Style style = Style::kPlain) {
      out.write("  ");
      out.write(style, text);
      out.write("\n");
    };
    const auto warn = [&](const std::string& text) { line(text, Style::kYellow); };
    if (ranks_before_ > 0)
      line(fmt::format("not counted: {} here before the program started", count_text(ranks_before_, "rank", "ranks")));
    if (cut_short_) warn("not everything was read for this report: it was interrupted");
    endings_.for_the_first([&](const auto& ending, const Names& passes) {
      warn(fmt::format("{} {}: {}", count_text(passes.size(), "pass", "passes"), ending, passes.text()));
    });
    unreadable_.for_the_first([&](const auto& why, const Names& passes) {
      warn(fmt::format("cannot be read: {}: {}", passes.text(), printable(why)));
    });
    without_coverage_.for_the_first([&](const auto& why, const Names& ranks) {
      warn(fmt::format("what is missing of {} is not known, it has no coverage.json: {}", ranks.text(), why));
    });
    bad_coverage_.for_the_first([&](const auto& why, const Names& ranks) {
      warn(fmt::format("what is missing of {} is not known, its coverage.json cannot be read: {}", ranks.text(),
                       printable(why)));
    });
    if (lost_passes_ > 0)
      warn(fmt::format("{} lost: no file could be made", count_text(lost_passes_, "pass", "passes")));
    if (drops_.total() > 0) warn(drops_text(drops_));
    for (const std::string& error : first_errors_.all()) line("first error: " + printable(error), Style::kRed);
    patterns(warn);
    source(line, warn);
  }

 private:
  DropCounts add_passes(const Rank& rank, Progress& progress) {
    DropCounts drops;
    for (const PassFile& file : rank.passes) {
      progress.advance();
      ++passes_;
      cut_short_ = cut_short_ || is_stop_waiting();
      if (cut_short_) continue;
      const std::string place = fmt::format("pass {} of {}", file.number, rank_text(rank));
      const auto pass = open_pass({&rank, &file});
      if (!pass.ok()) {
        unreadable_.of(pass.error().message).add(place);
        continue;
      }
      tensors_ += pass->tensor_count();
      bytes_ += pass->info().file_bytes;
      drops += pass->info().drops;
      if (pass->info().ending != Ending::kComplete) endings_.of(ending_text(pass->info())).add(place);
    }
    return drops;
  }

  void add_coverage(const Coverage& coverage) {
    drops_ += coverage.drops;
    lost_passes_ += coverage.lost_passes;
    names_seen_ = std::max(names_seen_, coverage.names_seen);
    for (const auto& [pattern, names] : coverage.patterns) matched_[pattern] += names;
    if (!coverage.first_error.empty()) first_errors_.add(coverage.first_error);
    if (!coverage.source) return;
    const SourceCoverage& source = *coverage.source;
    for (const auto& module : source.never_called) never_called_.of(module.why).add(module.name);
    for (const auto& module : source.without_tensors) without_tensors_.add(module.name);
    for (const auto& kind : source.unsupported) {
      unsupported_[kind.why] += kind.count;
      unsupported_places_.of(kind.why).add(kind.first);
    }
    outside_steps_ += source.outside_steps;
    late_gradients_ += source.late_gradients;
    for (const std::string& note : source.notes) notes_.add(note);
  }

  template <class Warn>
  void patterns(Warn warn) const {
    for (const auto& [pattern, names] : matched_)
      if (names == 0) warn(fmt::format("the pattern '{}' matched none of {} names", printable(pattern), names_seen_));
  }

  template <class Line, class Warn>
  void source(Line line, Warn warn) const {
    const size_t more = never_called_.for_the_first([&](const auto& why, const Names& modules) {
      line(fmt::format("{} not recorded, {}: {}", count_text(modules.size(), "module", "modules"),
                       why.empty() ? "no reason is given" : printable(why), modules.text()));
    });
    if (more > 0) line(fmt::format("{} not recorded for other reasons", count_text(more, "module", "modules")));
    if (without_tensors_.size() > 0)
      line(fmt::format("{} called without a tensor in or out: {}",
                       count_text(without_tensors_.size(), "module", "modules"), without_tensors_.text()));
    unsupported_places_.for_the_first([&](const auto& why, const Names& places) {
      warn(fmt::format("{} not recorded, {}: {}", unsupported_.at(why), printable(why), places.text()));
    });
    if (outside_steps_ > 0)
      warn(fmt::format("{} outside any step", count_text(outside_steps_, "module call", "module calls")));
    if (late_gradients_ > 0)
      warn(count_text(late_gradients_, "gradient came after its step", "gradients came after their steps"));
    for (const std::string& note : notes_.all()) line(printable(note));
  }

  uint64_t ranks_before_ = 0;
  uint64_t ranks_ = 0;
  uint64_t passes_ = 0;
  uint64_t tensors_ = 0;
  uint64_t bytes_ = 0;
  bool cut_short_ = false;
  Groups endings_;           // passes by how they ended, unless complete
  Groups unreadable_;        // passes by error
  Groups without_coverage_;  // ranks by why
  Groups bad_coverage_;      // ranks by error

  DropCounts drops_;
  uint64_t lost_passes_ = 0;
  uint64_t names_seen_ = 0;
  std::map<std::string, uint64_t> matched_;  // names by pattern
  Names first_errors_;
  Groups never_called_;
  Names without_tensors_;
  std::map<std::string, uint64_t> unsupported_;
  Groups unsupported_places_;
  uint64_t outside_steps_ = 0;
  uint64_t late_gradients_ = 0;
  Names notes_;
};

Run open_run(const fs::path& directory) {
  auto run = Run::open(directory);
  return run.ok() ? std::move(run).value() : Run{.path = directory};
}

}  // namespace

std::set<fs::path> ranks_in(const fs::path& directory) {
  std::set<fs::path> ranks;
  for (const Rank& rank : open_run(directory).ranks) ranks.insert(rank.path);
  return ranks;
}

void report_run(const fs::path& directory, const std::set<fs::path>& before, Output& out) {
  const RunReport report(open_run(directory), before);
  out.write("ttap run: ");
  if (report.has_ranks()) report.headline(directory, out);
  if (!report.has_tensors()) {
    out.write(report.has_ranks() ? "  " : "");
    out.write(Style::kYellow, "no process recorded anything");
    out.write("; the likely reasons:\n");
    out.write("    the program called no PyTorch module, and without --ops operators alone are not recorded\n");
    if (!report.has_ranks()) {
      out.write("    Python was started with -I, -E or -S, which keep TensorTap out\n");
      out.write("    TensorTap is not installed for the interpreter that ran\n");
    }
    out.write("    the filter, --steps or --ranks selected nothing\n");
  }
  report.details(out);
  if (report.has_ranks()) out.print("  all of it: ttap ls {} --coverage\n", shell_quoted(directory.string()));
}

}  // namespace ttap::cli
