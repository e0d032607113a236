#include "cli/coverage/list.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/coverage/file.h"
#include "cli/messages/error_text.h"
#include "report/run/describe.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace ttap::cli {
namespace {

using enum Table::Align;

class CoverageText {
 public:
  CoverageText(const Coverage& coverage, Output& out) : coverage_(coverage), out_(out) {}

  void write() {
    recorded();
    not_recorded();
    patterns();
    if (!coverage_.first_error.empty()) line("first error", printable(coverage_.first_error), Style::kRed);
    if (coverage_.source) source(*coverage_.source);
    others();
  }

 private:
  void line(std::string_view label, std::string_view text, Style style = Style::kPlain) {
    out_.print("  {:<12} ", label);
    out_.write(style, text);
    out_.write("\n");
  }
  void heading(std::string_view text) { out_.print("  {}\n", text); }

  void recorded() {
    const Coverage& c = coverage_;
    line("recorded", fmt::format("{} ({}) in {}", count_text(c.tensors, "tensor", "tensors"),
                                 bytes_text(c.tensor_bytes), count_text(c.passes, "pass", "passes")));
    line("names", fmt::format("{} recorded of {} seen", c.names_recorded, c.names_seen));
    line("written", fmt::format("{}; the bytes of {} were there already", bytes_text(c.file_bytes),
                                count_text(c.deduplicated, "tensor", "tensors")));
    line("staging", fmt::format("{} at its fullest", bytes_text(c.staging_peak_bytes)));
  }

  void not_recorded() {
    const std::string passes =
        coverage_.lost_passes == 0 ? "" : count_text(coverage_.lost_passes, "whole pass; ", "whole passes; ");
    const std::string drops = passes + drops_text(coverage_.drops);
    line("lost", drops.empty() ? "nothing" : drops, drops.empty() ? Style::kPlain : Style::kYellow);
  }

  void patterns() {
    std::string_view label = "patterns";
    for (const auto& [pattern, names] : coverage_.patterns) {
      const std::string matched = names == 0 ? fmt::format("none of the {} names seen", coverage_.names_seen)
                                             : count_text(names, "name", "names");
      line(label, fmt::format("'{}' matched {}", printable(pattern), matched),
           names == 0 ? Style::kYellow : Style::kPlain);
      label = "";
    }
  }

  void source(const SourceCoverage& source) {
    roots(source);
    never_called(source);
    without_tensors(source);
    unsupported(source);
    if (source.outside_steps > 0)
      heading(fmt::format("{} outside any step", count_text(source.outside_steps, "module call", "module calls")));
    if (source.late_gradients > 0)
      heading(count_text(source.late_gradients, "gradient that came after its step",
                         "gradients that came after their step"));
    if (!source.notes.empty()) heading("notes");
    for (const std::string& note : source.notes) out_.print("    {}\n", printable(note));
  }

  void roots(const SourceCoverage& source) {
    if (source.roots.empty()) return;
    Table table({{"model", kLeft, 0, true}, {"modules", kRight}, {"selected", kRight}, {"passes", kRight}});
    for (const auto& root : source.roots) {
      table.add(printable(root.name));
      for (uint64_t count : {root.modules, root.selected, root.passes}) table.add(fmt::format("{}", count));
    }
    table.draw(out_, 2);
  }

  // Grouped by the reason, in the order in which the reasons first appear.
  void never_called(const SourceCoverage& source) {
    std::vector<std::pair<std::string_view, std::vector<const SourceCoverage::NeverCalled*>>> groups;
    for (const auto& module : source.never_called) {
      auto group = std::ranges::find(groups, module.why, &decltype(groups)::value_type::first);
      if (group == groups.end()) group = groups.insert(group, {module.why, {}});
      group->second.push_back(&module);
    }
    for (const auto& [why, modules] : groups) {
      heading(fmt::format("{} not recorded: {}", count_text(modules.size(), "module", "modules"),
                          why.empty() ? "no reason is given" : printable(why)));
      for (const auto* module : modules)
        out_.print("    {}{}{}\n", printable(module->name), module->type.empty() ? "" : "  ", printable(module->type));
    }
  }

  void without_tensors(const SourceCoverage& source) {
    if (source.without_tensors.empty()) return;
    heading(fmt::format("{} called, but without a tensor in or out",
                        count_text(source.without_tensors.size(), "module", "modules")));
    for (const auto& module : source.without_tensors)
      out_.print("    {}  {}\n", printable(module.name), count_text(module.calls, "call", "calls"));
  }

  void unsupported(const SourceCoverage& source) {
    if (source.unsupported.empty()) return;
    heading("what cannot be recorded");
    for (const auto& kind : source.unsupported) {
      out_.print("    {}: {}", kind.why.empty() ? "no reason is given" : printable(kind.why), kind.count);
      if (!kind.first.empty()) out_.print(", the first {}", printable(kind.first));
      out_.write("\n");
    }
  }

  void others() {
    if (coverage_.others.empty()) return;
    heading("also in coverage.json");
    for (const auto& [place, value] : coverage_.others) out_.print("    {}: {}\n", printable(place), printable(value));
  }

  const Coverage& coverage_;
  Output& out_;
};

}  // namespace

ExitCode list_coverage(const Run& run, Output& out) {
  std::vector<Error> errors;
  bool first = true;
  for (const Rank& rank : run.ranks) {
    if (out.closed()) return kFine;
    if (!first) out.write("\n");
    first = false;
    out.write(Style::kBold, rank_text(rank));
    const auto coverage = read_coverage(rank.path);
    if (!coverage.ok()) {
      out.write(": ");
      out.write(Style::kRed, "coverage.json cannot be read");
      out.write("\n");
      errors.push_back(coverage.error());
    } else if (!*coverage) {
      out.write(": ");
      out.write(Style::kYellow, fmt::format("no coverage.json: {}", why_no_coverage(rank)));
      out.print("\n  {} found\n", count_text(rank.passes.size(), "pass", "passes"));
    } else {
      out.write("\n");
      CoverageText(**coverage, out).write();
    }
  }
  out.flush();
  for (const Error& error : errors) print_error("ls", error);
  return errors.empty() ? kFine : kError;
}

ExitCode write_coverage_json(const Run& run, Output& out) {
  JsonWriter json(out);
  ExitCode code = kFine;
  json.begin_object().member("command", "ls");
  write_run_members(json, run);
  json.key("ranks").begin_array();
  for (const Rank& rank : run.ranks) {
    const auto coverage = read_coverage(rank.path);
    json.begin_object();
    json.member("rank", rank.number).member("pid", rank.pid).member("path", rank.path.string());
    json.key("coverage");
    coverage.ok() && *coverage ? json.raw((*coverage)->json) : json.null();
    json.key("missing");
    coverage.ok() && !*coverage ? json.value(why_no_coverage(rank)) : json.null();
    if (!coverage.ok()) {
      json.key("error");
      write_error(json, coverage.error());
      code = kError;
    }
    json.end();
  }
  json.end().end();
  return code;
}

}  // namespace ttap::cli
