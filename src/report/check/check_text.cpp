#include "report/check/check_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyze/ops/role_flow.h"
#include "report/run/describe.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace ttap {
namespace {

constexpr size_t kHeirsShown = 10;

uint64_t bad_values(const Nonfinite& counts) { return counts.nan + counts.pos_inf + counts.neg_inf; }

// What the inputs say about where it came from.
std::string conclusion(const FirstFinding& first) {
  if (flow_of(first.role).input) return "it went into this call already: what produced it was not recorded";
  if (first.inputs.empty())
    return first.before ? fmt::format("the inputs of this call were not recorded; the last clean tensor before it: {}",
                                      printable(*first.before))
                        : "no clean tensor was recorded before it";
  if (std::ranges::all_of(first.inputs, &CheckedInput::finite))
    return "every recorded input of this call was finite: it arose here";
  return "an input of this call was not finite, or could not be judged";
}

// Where the recording does not say what calls used: what stands beside it.
void draw_situation(const FirstFinding& first, Output& out) {
  if (first.event) {
    write_fact(
        out, 8, "event",
        fmt::format("{} {}, call {}", printable(first.event->kind), printable(first.event->name), first.event->call));
    if (!first.event->parents.empty()) write_fact(out, 8, "inside", first.event->parents);
    if (const std::string_view stack = first.event->stack; !stack.empty())
      write_fact(out, 8, "line", printable(stack.substr(stack.find_last_of('\n') + 1)));
  }
  for (const CheckedInput& input : first.inputs)
    write_fact(out, 8, "input",
               fmt::format("{}  {} {}  {}", printable(input.tensor.key), dtype_name(input.tensor.dtype),
                           shape_text(input.tensor.shape),
                           input.finite  ? input.stats
                                               ? fmt::format("finite, max |x| {}",
                                                             statistic_text(input.stats->max_abs, input.tensor.dtype, 4))
                                               : std::string("finite")
                            : input.stats ? nonfinite_text(*input.stats)
                                         : "not judged"));
  write_fact(out, 8, "so", conclusion(first));
  if (first.inputs.empty() && first.event && first.event->kind == "module")
    write_fact(out, 8, "to know", "record ops (ops=True, ttap run --ops), or modules with roles=(\"in\", \"out\")");
}

void draw_first(const CheckReport& report, Output& out) {
  const FirstFinding& first = *report.first;
  const CheckedTensor& tensor = first.tensor;
  out.write(first.is_fault() ? Style::kRed : Style::kYellow, "FIRST");
  out.write("  ");
  out.write(Style::kBold, printable(tensor.key));
  out.write("\n");
  write_fact(out, 8, "where",
             fmt::format("pass {} of rank {} (pid {}), tensor {} of {}", tensor.pass, tensor.rank, tensor.pid,
                         tensor.index + 1, first.tensors_in_pass));
  if (first.format != Format::kSegment)
    write_fact(out, 8, "order",
               fmt::format("as in the file: .{} does not say when things ran", to_string(first.format)));
  write_fact(out, 8, "tensor", fmt::format("{} {}", dtype_name(tensor.dtype), shape_text(tensor.shape)));
  write_fact(
      out, 8, "holds",
      fmt::format("{} of {} ({})", counts_text(tensor.counts), count_text(tensor.counts.values, "value", "values"),
                  share_text(bad_values(tensor.counts), tensor.counts.values)));
  if (first.place) {
    write_fact(
        out, 8, "first at",
        fmt::format("{} {}", place_text(*first.place, tensor.dtype, tensor.shape), number_text(first.place->value, 6)));
  } else {
    write_fact(
        out, 8, "first at",
        first.has_bytes ? "unknown: its bytes cannot be read; see ttap show" : "unknown: its bytes were not kept");
  }
  first.origin_report ? draw_origin_report(*first.origin_report, out) : draw_situation(first, out);
  write_fact(out, 8, "look",
             fmt::format("ttap show {} {} --pass {} --rank {}", shell_quoted(printable(report.path)),
                         shell_quoted(printable(tensor.key)), tensor.pass, tensor.rank));
}

bool is_first(const CheckReport& report, const CheckedTensor& tensor) {
  const CheckedTensor& first = report.first->tensor;
  return tensor.rank == first.rank && tensor.pid == first.pid && tensor.pass == first.pass &&
         tensor.index == first.index;
}

// What is on purpose or of no consequence is only counted, and of what ops passed on the first few are listed, unless
// all is asked for.
void draw_rest(const CheckReport& report, Output& out) {
  using enum Table::Align;
  Table table({{"rank", kRight},
               {"pass", kRight},
               {"key", kLeft, 0, true},
               {"dtype", kLeft, 2},
               {"shape", kLeft, 1},
               {"holds"},
               {"share", kRight},
               {"why"}});
  size_t more = 0;
  size_t meant = 0;
  size_t heirs = 0;
  size_t unlisted = 0;
  for (const CheckedTensor& tensor : report.found) {
    if (is_first(report, tensor)) continue;
    if (tensor.because && !tensor.because->fault && !report.all) {
      ++meant;
      continue;
    }
    ++more;
    if (tensor.because && tensor.because->inherited && !report.all && ++heirs > kHeirsShown) {
      ++unlisted;
      continue;
    }
    table.add(fmt::format("{}", tensor.rank));
    table.add(fmt::format("{}", tensor.pass));
    table.add(printable(tensor.key));
    table.add(dtype_name(tensor.dtype));
    table.add(shape_text(tensor.shape));
    table.add(counts_text(tensor.counts), Style::kRed);
    table.add(share_text(bad_values(tensor.counts), tensor.counts.values));
    table.add(tensor.because ? because_text(*tensor.because) : "");
  }
  if (more > 0) {
    out.print("\nthen {}, in this order:\n", count_text(more, "more tensor", "more tensors"));
    table.draw(out, 2);
  }
  if (unlisted > 0) out.print("  ... and {} more that inherited it (--all lists them)\n", unlisted);
  if (meant > 0)
    out.print("\n{} NaN or Inf on purpose, uninitialised or without consequence (--all lists them)\n",
              count_text(meant, "tensor holds", "tensors hold"));
}

void draw_suspects(const CheckReport& report, Output& out) {
  for (const CheckedSuspect& suspect : report.suspects) {
    out.write(Style::kYellow, suspect.suspicion == Suspicion::kUnderflow ? "underflow" : "near overflow");
    out.print(": {} in pass {} of rank {}: ", printable(suspect.tensor.key), suspect.tensor.pass, suspect.tensor.rank);
    if (suspect.suspicion == Suspicion::kUnderflow)
      out.print("{} of {} is subnormal\n", share_text(suspect.stats.subnormals, suspect.stats.count),
                dtype_name(suspect.tensor.dtype));
    else
      out.print("{} up to {}\n", dtype_name(suspect.tensor.dtype),
                statistic_text(suspect.stats.max_abs, DType::kF64, 5));
  }
}

void draw_trouble(const CheckReport& report, Output& out) {
  for (const CheckTrouble& damaged : report.damaged) {
    out.write(Style::kRed, "damaged");
    out.print(": {} in pass {} of rank {}: {}\n", printable(damaged.tensor.key), damaged.tensor.pass,
              damaged.tensor.rank, printable(damaged.error.describe()));
  }
  for (const CheckedPass& pass : report.passes) {
    const auto warn = [&](const std::string& text) {
      if (text.empty()) return;
      out.write(Style::kYellow, "warning");
      out.print(": pass {} of rank {}: {}\n", pass.info.number, pass.rank, text);
    };
    if (pass.info.ending != Ending::kComplete) warn(ending_text(pass.info));
    warn(drops_text(pass.info.drops));
    warn(torn_text(pass.info));
  }
  draw_unjudged(report.unjudged, out);
  if (report.without_hash > 0)
    out.print("{} of a format without hashes: --verify could only read them\n",
              count_text(report.without_hash, "tensor is", "tensors are"));
  if (report.without_value > 0)
    out.print("{} no value: uninitialised memory, or on the meta device\n",
              count_text(report.without_value, "tensor has", "tensors have"));
  if (report.warm_ups > 0)
    out.print("{} and were not looked at\n", count_text(report.warm_ups, "pass only warms up", "passes only warm up"));
  if (report.unwanted > 0)
    out.print("{} left out by --filter '{}'\n", count_text(report.unwanted, "tensor was", "tensors were"),
              printable(report.filter));
}

}  // namespace

void draw_unjudged(std::span<const CheckTrouble> unjudged, Output& out) {
  constexpr size_t kShown = 10;
  if (unjudged.empty()) return;
  out.write(Style::kYellow, "warning");
  out.print(": {} could not be judged:\n", count_text(unjudged.size(), "tensor", "tensors"));
  for (const CheckTrouble& trouble : unjudged.first(std::min(unjudged.size(), kShown)))
    out.print("  pass {} of rank {}: {}\n", trouble.tensor.pass, trouble.tensor.rank, printable(trouble.error.message));
  if (unjudged.size() > kShown) out.print("  ... and {} more (--json lists all)\n", unjudged.size() - kShown);
}

void draw_report(const CheckReport& report, Output& out) {
  if (report.runs > 1) out.print("run {} of {}: {}\n", report.run, report.runs, printable(report.path));
  if (report.first) {
    draw_first(report, out);
    draw_rest(report, out);
    out.write("\n");
  }
  if (report.all) draw_suspects(report, out);
  draw_trouble(report, out);
  if (report.verified) {
    out.print("verified: the bytes of {} match their hash ({})",
              count_text(report.verified_tensors, "tensor", "tensors"), bytes_text(report.verified_bytes));
    if (!report.damaged.empty()) out.write(Style::kRed, fmt::format(", those of {} do not", report.damaged.size()));
    out.write("\n");
  }
  const std::string checked = fmt::format("{} of {}", count_text(report.judged, "tensor", "tensors"),
                                          count_text(report.passes.size(), "pass", "passes"));
  if (report.found.empty()) {
    const bool sure = report.judged > 0 && report.conclusive();
    out.write(sure ? Style::kGreen : Style::kYellow, report.conclusive() ? "no NaN, no Inf" : "inconclusive");
    if (report.conclusive()) {
      out.print(" in {}\n", checked);
    } else {
      out.print(": {}; no NaN, no Inf in what is left, {}\n", report.lost.text(), checked);
      out.write(
          "  to know: record with a larger --quota, --level fingerprint, --filter, --steps, or --when-full block\n");
    }
  } else {
    out.write(Style::kRed, "NaN or Inf");
    out.print(" in {} of {}\n", report.found.size(), checked);
    if (report.lost.any()) out.print("besides, {}: a NaN or Inf may have been there before\n", report.lost.text());
  }
}

}  // namespace ttap
