#include <fmt/format.h>

#include <algorithm>

#include "report/check/origin.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace ttap {
namespace {

constexpr size_t kFramesShown = 5;

// `model.py:42 in forward: return x.log()`
std::string frame_text(std::string_view frame) {
  const size_t tab = frame.find('\t');
  std::string text = printable(frame.substr(0, tab));
  if (tab != std::string_view::npos) text += ": " + printable(frame.substr(tab + 1));
  return text;
}

std::string argument_text(const DescribedArgument& argument) {
  std::string text = argument.path.empty() ? "" : printable(argument.path) + "  ";
  if (argument.rank) text = fmt::format("rank {}  {}", *argument.rank, text);
  if (!argument.tensor) return text + "its value was not recorded";
  const DType dtype = argument.tensor->dtype;
  text += fmt::format("{} {}  ", dtype_name(dtype), shape_text(argument.tensor->shape));
  if (!argument.stats) return text + (argument.finite ? "finite" : "not judged: no statistics were recorded");
  const Stats& stats = *argument.stats;
  text += argument.finite ? "finite" : nonfinite_text(stats);
  if (stats.finite() > 0)
    text += fmt::format(", min {}, max {}, mean {}, max |x| {}", statistic_text(stats.min, dtype, 4),
                        statistic_text(stats.max, dtype, 4), statistic_text(stats.mean, DType::kF64, 4),
                        statistic_text(stats.max_abs, dtype, 4));
  if (stats.zeros > 0) text += ", " + count_text(stats.zeros, "zero", "zeros");
  if (!argument.from.empty()) text += "; from " + printable(argument.from);
  return text;
}

std::string paths_text(const std::vector<DescribedArgument>& arguments) {
  std::string paths;
  for (const DescribedArgument& argument : arguments)
    if (!argument.stats && !argument.finite) paths += (paths.empty() ? "" : ", ") + printable(argument.path);
  return paths;
}

// "rank 1", "ranks 0, 2".
std::string ranks_text(const std::vector<uint32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  return text;
}

// "all 2 contributions to c10d::allreduce_ of group 0, its 3rd, (ranks 0, 1)"
std::string contributions_text(const DescribedOrigin& origin, std::string_view were) {
  std::string text;
  for (const DescribedCollective& each : origin.collectives) {
    std::vector<uint32_t> ranks;
    for (const DescribedCollective::Contribution& from : each.contributions) ranks.push_back(*from.rank);
    const std::string which =
        ranks.size() == 1 ? std::string("the one contribution") : fmt::format("all {} contributions", ranks.size());
    text += fmt::format("{}{} to {}, {} {} ({})", text.empty() ? "" : "; ", which, printable(each.text),
                        ranks.size() == 1 ? "was" : "were", were, ranks_text(ranks));
  }
  return text;
}

// Which contributions are not known.
std::string open_text(const DescribedOrigin& origin) {
  std::string text;
  for (const DescribedCollective& each : origin.collectives) {
    std::string why = each.problem;
    for (const DescribedCollective::Contribution& from : each.contributions)
      if (!from.known) why += (why.empty() ? "" : ", ") + from.missing;
    if (!why.empty())
      text += fmt::format("; of what the ranks gave to {}, not all is known: {}", printable(each.text), printable(why));
  }
  return "another rank gave it, or this collective made it" + text;
}

std::string made_text(const DescribedOrigin& origin) {
  if (!origin.collectives.empty()) return "made here: " + contributions_text(origin, "finite");
  return origin.arguments.empty() ? "made here: no tensor went into this call"
                                  : "made here: every argument of this call was finite";
}

std::string unknown_text(const DescribedOrigin& origin) {
  if (!origin.collectives.empty()) return open_text(origin);
  const std::string paths = paths_text(origin.arguments);
  if (paths.empty()) return "what went into this call was not recorded: it may have been made further up";
  return fmt::format("made here, or it came in: of argument {} nothing was recorded", paths);
}

std::string uninitialised_text(const DescribedOrigin& origin) {
  if (origin.first_reader.empty()) return "nothing had been written to this memory yet: any value may stand there";
  return fmt::format("nothing had been written to this memory when {} was computed from it",
                     printable(origin.first_reader));
}

std::string conclusion(const DescribedOrigin& origin) {
  std::string text;
  switch (origin.kind) {
    case OriginKind::kMade: text = made_text(origin); break;
    case OriginKind::kNanFromInf:
      text = "NaN was made here of Inf: " + (origin.collectives.empty() ? "no argument of this call was NaN"
                                                                        : contributions_text(origin, "without NaN"));
      break;
    case OriginKind::kCameIn: text = "it came in with this argument, and no recorded call returned it"; break;
    case OriginKind::kUnknown: text = unknown_text(origin); break;
    case OriginKind::kUninitialised: text = uninitialised_text(origin); break;
    case OriginKind::kOnPurpose: text = "on purpose: the number stands in the program"; break;
    case OriginKind::kFromRank: text = "another rank gave it"; break;
  }
  if (origin.harmless) text += "; later calls made finite values of it";
  return text;
}

std::string_view kind_text(OriginKind kind) {
  switch (kind) {
    case OriginKind::kMade: return "made here";
    case OriginKind::kNanFromInf: return "NaN made of Inf";
    case OriginKind::kCameIn: return "came in";
    case OriginKind::kUnknown: return "unknown";
    case OriginKind::kUninitialised: return "uninitialised";
    case OriginKind::kOnPurpose: return "on purpose";
    case OriginKind::kFromRank: return "from another rank";
  }
  return "";
}

// An origin that another one leads to, on one line.
std::string brief_text(const DescribedOrigin& origin) {
  std::string text = printable(origin.tensor.key);
  if (origin.call) text += "  " + origin.call->text;
  text += fmt::format("  {}", kind_text(origin.kind));
  if (origin.call && !origin.call->stack.empty()) text += ", " + frame_text(origin.call->stack.front());
  return text;
}

void draw_stack(const DescribedOrigin::Call& call, Output& out) {
  for (size_t i = 0; i < std::min(call.stack.size(), kFramesShown); ++i)
    write_fact(out, 8, i == 0 ? "line" : "from", frame_text(call.stack[i]));
  if (call.stack.size() > kFramesShown)
    write_fact(out, 8, "",
               fmt::format("... and {} (--json lists all)",
                           count_text(call.stack.size() - kFramesShown, "more frame", "more frames")));
}

}  // namespace

std::string because_text(const CheckedTensor::Because& because) {
  if (because.from_rank) return fmt::format("from rank {}", *because.from_rank);
  if (!because.inherited) return std::string(kind_text(because.origin));
  return because.fault ? "inherited" : fmt::format("inherited, {}", kind_text(because.origin));
}

void draw_origin_report(const OriginReport& origin_report, Output& out) {
  const DescribedOrigin& origin = origin_report.first;
  if (origin.call) write_fact(out, 8, "call", origin.call->text);
  for (const DescribedArgument& argument : origin.arguments) write_fact(out, 8, "input", argument_text(argument));
  write_fact(out, 8, "so", conclusion(origin));
  for (const DescribedSpread& each : origin_report.spread)
    write_fact(out, 8, "spread",
               fmt::format("by {}: from rank {} to {}", printable(each.text), each.from, ranks_text(each.to)));
  if (origin_report.inf_from) write_fact(out, 8, "Inf from", brief_text(*origin_report.inf_from));
  for (const std::string& hint : origin.hints) {
    out.write(Style::kDim, fmt::format("  {:<8} ", "hint"));
    out.write(Style::kYellow, printable(hint));
    out.write("\n");
  }
  if (origin.call) {
    if (!origin.call->module.empty())
      write_fact(out, 8, "module", printable(origin.call->module) + (origin.call->backward ? ", in the backward" : ""));
    draw_stack(*origin.call, out);
  }
  if (origin.forward) {
    std::string text = printable(origin.forward->name);
    if (!origin.forward->stack.empty()) text += ", " + frame_text(origin.forward->stack.front());
    write_fact(out, 8, "forward", text);
  }
  if (origin_report.became_nan) write_fact(out, 8, "NaN in", brief_text(*origin_report.became_nan));
  write_fact(out, 8, "then",
             (origin.heirs == 0 ? std::string("no later tensor inherited it")
                                : count_text(origin.heirs, "later tensor inherited it", "later tensors inherited it")) +
                 (origin_report.spread.empty() ? "" : " on this rank"));
}

}  // namespace ttap
