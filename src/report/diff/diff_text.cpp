#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "analyze/diff/blame/cause.h"
#include "analyze/diff/sides/made_value.h"
#include "report/diff/diff_report.h"
#include "report/log/call_text.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace ttap {
namespace {

Style style_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kIdentical:
    case Verdict::kWithin: return Style::kGreen;
    case Verdict::kDiverged:
    case Verdict::kShapeMismatch: return Style::kRed;
    default: return Style::kYellow;
  }
}

std::string error_text(double value, bool estimated = false) {
  if (std::isnan(value)) return "";
  return fmt::format("{}{:.3g}", estimated ? "~ " : "", value);
}

std::string shapes_text(const PassDiff& pass, const TensorDiff& tensor) {
  const TensorRecord record = record_of(pass, tensor);
  std::string text = fmt::format("{} {}", dtype_text(record), shape_text(record.shape));
  if (tensor.match.a == kNoTensor || tensor.match.b == kNoTensor) return text;
  const TensorRecord b = pass.b->tensor(tensor.match.b);
  const bool same = dtype_text(record) == dtype_text(b) && std::ranges::equal(record.shape, b.shape);
  return same ? text : fmt::format("{} against {} {}", text, dtype_text(b), shape_text(b.shape));
}

void draw_measures(const PassDiff& pass, const TensorDiff& tensor, Output& out) {
  const Measures& m = *tensor.measures;
  const TensorRecord record = record_of(pass, tensor);
  if (tensor.evidence == Evidence::kSketch)
    return write_fact(out, 10, "error",
                      fmt::format("rmse {}, relative {}  (estimated from sketches)", error_text(m.rmse),
                                  error_text(relative_error(tensor))));
  if (tensor.evidence != Evidence::kValues) return;
  write_fact(out, 10, "error",
             fmt::format("max {}, mean {}, rmse {}, relative {}", error_text(m.max_abs), error_text(m.mean_abs),
                         error_text(m.rmse), error_text(relative_error(tensor))));
  std::string more = fmt::format("cosine {:.9g}, SQNR {:.4g} dB", m.cosine, m.sqnr_db);
  if (m.max_ulp) more += fmt::format(", ULP max {}, 99 % within {}", *m.max_ulp, *m.p99_ulp);
  write_fact(out, 10, "", more);
  if (m.worst) {
    const Located place{m.worst->element, m.worst->part, m.worst->a};
    write_fact(out, 10, "worst at",
               fmt::format("{}: A {}, B {}", place_text(place, record.dtype, compared_shape(tensor, record)),
                           number_text(m.worst->a, 6), number_text(m.worst->b, 6)));
  }
}

std::string tolerance_text(const Judge& judge) {
  if (judge.predicate) return fmt::format("{} ({})", judge.predicate->text(), judge.source);
  std::string text = fmt::format("rtol {:.3g}, atol {:.3g}", judge.tolerance.rtol, judge.tolerance.atol);
  if (std::isfinite(judge.most_relative)) text += fmt::format(", relative {:.3g}", judge.most_relative);
  return fmt::format("{} ({})", text, judge.source);
}

std::string_view other_name_text(MatchedBy by) {
  switch (by) {
    case MatchedBy::kMap: return "matched by the map";
    case MatchedBy::kDeclared: return "as its recording declares";
    case MatchedBy::kStructure: return "matched by structure";
    case MatchedBy::kValues: return "matched by its values";
    case MatchedBy::kOp: return "matched as the same op";
    case MatchedBy::kBits: return "it has the same bits";
    case MatchedBy::kPlace: return "it stands in its place";
    case MatchedBy::kKey: return "the result of the same call";
    case MatchedBy::kNothing: return "";
  }
  return "";
}

std::string how_text(const Match& match) {
  if (match.by == MatchedBy::kMap && match.rule > 0) return fmt::format("by the map, line {}", match.rule);
  return std::string(other_name_text(match.by));
}

// The key of a value, or what it is made of: "qkv_proj[..., 0:128]", "layer/0 + layer/1".
std::string value_text(const Side& side, uint32_t tensor, const MadeValue* made) {
  return made != nullptr ? made_text(side, *made) : to_string(side.tensor(tensor).key());
}

// The call that made a tensor, where the recording says it, and the line of the program.
void draw_calls(const PassDiff& pass, const TensorDiff& tensor, Output& out) {
  std::string line_a;
  for (const auto& [side, index, name] :
       {std::tuple(pass.a.get(), tensor.match.a, "A"), std::tuple(pass.b.get(), tensor.match.b, "B")}) {
    if (index == kNoTensor) continue;
    const TensorRecord record = side->tensor(index);
    if (record.event >= side->event_count()) continue;
    const std::string call = call_text(*side, record.event);
    if (!call.empty()) write_fact(out, 10, fmt::format("call in {}", name), printable(call));
    std::string line = user_line(side->event(record.event).stack);
    if (line.empty() || line == line_a) continue;
    write_fact(out, 10, call.empty() ? "line" : fmt::format("line in {}", name), printable(line));
    line_a = std::move(line);
  }
}

void draw_first(const DiffReport& report, Output& out) {
  const auto place = report.first();
  if (!place) return;
  const PassDiff& pass = report.passes[place->pass];
  const TensorDiff& tensor = report.at(*place);
  const TensorRecord record = record_of(pass, tensor);
  for (const std::string& line : evidence_lines(report)) out.print("  {}\n", line);
  out.write("\n");
  write_fact(out, 10, "where",
             fmt::format("{} of A against {} of B, tensor {} of {}", pass.a->place(), pass.b->place(),
                         place->tensor + 1, pass.tensors.size()));
  const Match& match = tensor.match;
  if (match.made_a != nullptr) write_fact(out, 10, "A's is", printable(made_text(*pass.a, *match.made_a)));
  if (const std::string by = how_text(match); !by.empty())
    if (const std::string text = value_text(*pass.b, match.b, match.made_b.get());
        match.is_made() || text != to_string(record.key()))
      write_fact(out, 10, "B calls it",
                 fmt::format("{} ({}{})", printable(text), by,
                             match.by == MatchedBy::kStructure
                                 ? fmt::format(", confidence {:.0f} %", 100 * match.confidence)
                                 : ""));
  write_fact(out, 10, "tensor", shapes_text(pass, tensor));
  if (tensor.measures != nullptr) draw_measures(pass, tensor, out);
  if (tensor.judge != nullptr) write_fact(out, 10, "tolerance", tolerance_text(*tensor.judge));
  if (!tensor.note.empty()) write_fact(out, 10, "note", printable(tensor.note));
  draw_calls(pass, tensor, out);
  out.write("\n");
}

void draw_table(const DiffReport& report, const DrawDiffOptions& options, Output& out) {
  using enum Table::Align;
  Table table({{"rank", kRight, 5},
               {"pass", kRight, 5},
               {"order", kRight, 4},
               {"key", kLeft, 0, true},
               {"verdict"},
               {"cause"},
               {"max abs", kRight, 1},
               {"relative", kRight},
               {"cosine", kRight, 3},
               {"outside", kRight, 2},
               {"NaN/Inf", kRight, 2}});
  size_t left_out = 0;
  const auto is_of_first_rank = [&](const PassDiff& pass) { return pass.rank == report.passes.front().rank; };
  const bool one_rank = std::ranges::all_of(report.passes, is_of_first_rank);
  for (uint32_t p = 0; p < report.passes.size(); ++p) {
    const PassDiff& pass = report.passes[p];
    for (uint32_t i = 0; i < pass.tensors.size(); ++i) {
      const TensorDiff& tensor = pass.tensors[i];
      // An input that differs is somebody's output: it has a row of its own only where that was not recorded.
      const bool explained = is_input(record_of(pass, tensor).role) && tensor.cause == Cause::kInherited;
      if (!options.all && ((!differs(tensor) && tensor.cause != Cause::kIntroduced) || explained)) continue;
      // An introduced one is never left out.
      if (!options.all && table.rows() >= options.rows && tensor.cause != Cause::kIntroduced) {
        ++left_out;
        continue;
      }
      const Measures* m = tensor.measures.get();
      const bool by_values = tensor.evidence == Evidence::kValues;
      table.add(one_rank || !pass.rank ? "" : fmt::format("{}", *pass.rank));
      table.add(report.passes.size() > 1 ? fmt::format("{}", pass.a->info().number) : "");
      table.add(fmt::format("{}", i + 1));
      table.add(printable(key_of(pass, tensor)), tensor.cause == Cause::kIntroduced ? Style::kBold : Style::kPlain);
      table.add(to_string(tensor.verdict), style_of(tensor.verdict));
      table.add(to_string(tensor.cause), tensor.cause == Cause::kIntroduced ? Style::kRed : Style::kPlain);
      table.add(m && by_values ? error_text(m->max_abs) : "");
      table.add(is_measured(tensor) ? error_text(relative_error(tensor), !by_values) : "");
      table.add(m && !std::isnan(m->cosine) ? fmt::format("{:.6f}", m->cosine) : "");
      table.add(m && by_values ? share_text(m->outside, m->count) : "");
      const uint64_t mismatches = m ? m->nan_mismatches + m->inf_mismatches : 0;
      table.add(mismatches > 0 ? fmt::format("{}", mismatches) : "", Style::kRed);
    }
  }
  if (table.rows() == 0) return;
  table.draw(out);
  if (left_out > 0) out.print("... and {} more that differ (--all, --json, --csv and --html have all)\n", left_out);
  out.write("\n");
}

// What was compared as something else than it is stored as.
void draw_quantized(const DiffReport& report, Output& out) {
  if (report.decoded > 0)
    out.print("{} quantized in A or B: decoded values were compared\n",
              count_text(report.decoded, "tensor is", "tensors are"));
  if (const uint64_t parts = report.parts_a + report.parts_b; parts > 0)
    out.print("{} of quantized tensors, which are compared as a whole\n", count_text(parts, "part", "parts"));
}

void draw_unmatched(const DiffReport& report, const DrawDiffOptions& options, Output& out) {
  for (const auto& [verdict, side] : {std::pair(Verdict::kMissing, "A"), std::pair(Verdict::kExtra, "B")}) {
    size_t shown = 0;
    const uint64_t trivial = verdict == Verdict::kMissing ? report.trivial_a : report.trivial_b;
    const uint64_t count = report.count(verdict) - (options.all ? 0 : trivial);
    if (report.count(verdict) == 0) continue;
    out.write(Style::kYellow, fmt::format("only in {}", side));
    out.print(": {}{}\n", count_text(report.count(verdict) - trivial, "tensor", "tensors"),
              trivial > 0
                  ? fmt::format(", and {} of ops that only copy or view, or that the other has elsewhere", trivial)
                  : "");
    for (const PassDiff& pass : report.passes)
      for (const TensorDiff& tensor : pass.tensors)
        if (tensor.verdict == verdict && (options.all || (shown < 8 && !tensor.match.trivial))) {
          ++shown;
          out.print("  {}\n", printable(key_of(pass, tensor)));
        }
    if (shown < count) out.print("  ... and {} more (--all)\n", count - shown);
  }
  for (const auto& [only, side] : {std::pair(&report.only_a, "A"), std::pair(&report.only_b, "B")}) {
    if (only->empty()) continue;
    out.write(Style::kYellow, fmt::format("only in {}", side));
    out.print(": {}\n", only->size() <= 4 ? fmt::format("{}", fmt::join(*only, "; "))
                                          : fmt::format("{} and {} more", only->front(), only->size() - 1));
  }
}

void draw_settings(const DiffReport& report, Output& out) {
  constexpr size_t kShown = 8;
  size_t count = 0;
  for (const PassDiff& pass : report.passes) {
    for (const SettingDiff& setting : pass.settings) {
      if (count++ == 0) {
        out.write(Style::kYellow, "settings that differ");
        out.write("\n");
      }
      if (count <= kShown) out.print("  {}: {}\n", printable(setting.call_a), printable(setting.text()));
    }
    if (count > 0) break;  // those of the other passes are the same
  }
  if (count > kShown) out.print("  ... and {} more (--json)\n", count - kShown);
}

void draw_not_compared(const DiffReport& report, Output& out) {
  if (report.not_compared == 0) return;
  out.write(Style::kYellow, "not compared");
  out.print(": {}\n", count_text(report.not_compared, "tensor", "tensors"));
  size_t shown = 0;
  for (const PassDiff& pass : report.passes)
    for (const TensorDiff& tensor : pass.tensors)
      if (tensor.verdict == Verdict::kInconclusive && !differs(tensor) && ++shown <= 4)
        out.print("  {}: {}\n", printable(key_of(pass, tensor)), printable(tensor.reason));
  if (report.not_compared > 4) out.print("  ... and {} more (--all)\n", report.not_compared - 4);
}

void draw_guesses(const DiffReport& report, Output& out) {
  uint64_t guessed = 0;
  float least = 1;
  for (const PassDiff& pass : report.passes)
    for (const TensorDiff& tensor : pass.tensors)
      if (tensor.match.by == MatchedBy::kStructure) {
        ++guessed;
        least = std::min(least, tensor.match.confidence);
      }
  if (guessed == 0) return;
  out.write(Style::kYellow, "guessed");
  out.print(": {} matched by structure, confidence {:.0f} % or better; --map FILE settles it\n",
            count_text(guessed, "tensor was", "tensors were"), std::floor(100 * least));
}

void draw_dropped(const DiffReport& report, const DrawDiffOptions& options, Output& out) {
  size_t of_a = 0, of_b = 0;
  for (const PassDiff& pass : report.passes)
    for (const Match& match : pass.dropped) ++(match.a != kNoTensor ? of_a : of_b);
  if (of_a + of_b == 0) return;
  out.print("dropped by the map: {} of A and {} of B\n", count_text(of_a, "tensor", "tensors"), of_b);
  size_t left = options.all ? of_a + of_b : options.rows;
  for (const PassDiff& pass : report.passes)
    for (const Match& match : pass.dropped) {
      if (left == 0) return out.print("  and {} more; --all lists them\n", of_a + of_b - options.rows);
      --left;
      const bool is_a = match.a != kNoTensor;
      const TensorRecord record = is_a ? pass.a->tensor(match.a) : pass.b->tensor(match.b);
      out.print("  {}: {} (line {})\n", is_a ? "A" : "B", printable(to_string(record.key())), match.rule);
    }
}

void draw_setup(const DiffReport& report, Output& out) {
  if (report.setup_a + report.setup_b == 0) return;
  out.print("not compared: {} of A and {} of B ran before the first forward; --all-ops compares them\n",
            count_text(report.setup_a, "operator", "operators"), report.setup_b);
}

void draw_tokens(const ComparedTokens& tokens, Output& out) {
  out.print("by token: {} of {}, computed in {} of A and {} of B\n", count_text(tokens.tokens, "token", "tokens"),
            count_text(tokens.requests, "request", "requests"), count_text(tokens.passes_a, "pass", "passes"),
            tokens.passes_b);
  for (const auto& [count, side] : {std::pair(tokens.only_a, "A"), std::pair(tokens.only_b, "B")})
    if (count > 0)
      out.print("  {} only by {}: the other has them in its cache, or ended before\n",
                count_text(count, "token was computed", "tokens were computed"), side);
  if (tokens.left_out_a + tokens.left_out_b > 0)
    out.print("  not compared: {} of A and {} of B, which have no row for each token\n",
              count_text(tokens.left_out_a, "tensor", "tensors"), tokens.left_out_b);
}

void draw_matches(const DiffReport& report, Output& out) {
  using enum Table::Align;
  Table table({{"A", kLeft, 0, true}, {"B", kLeft, 0, true}, {"how"}, {"sure", kRight}});
  for (const PassDiff& pass : report.passes)
    for (const TensorDiff& tensor : pass.tensors) {
      const Match& match = tensor.match;
      if (match.a == kNoTensor || match.b == kNoTensor) continue;
      table.add(printable(value_text(*pass.a, match.a, match.made_a.get())));
      table.add(printable(value_text(*pass.b, match.b, match.made_b.get())));
      table.add(how_text(match));
      table.add(fmt::format("{:.0f} %", 100 * match.confidence));
    }
  table.draw(out);
  out.write("\n");
}

}  // namespace

void draw_diff(const DiffReport& report, const DrawDiffOptions& options, Output& out) {
  const std::string sentence = verdict_sentence(report);
  const size_t colon = sentence.find(':');
  out.write(style_of(report.verdict), sentence.substr(0, colon));
  out.print("{}\n", sentence.substr(colon));
  draw_first(report, out);
  if (options.matches) draw_matches(report, out);
  draw_table(report, options, out);
  draw_quantized(report, out);
  draw_unmatched(report, options, out);
  draw_settings(report, out);
  draw_not_compared(report, out);
  draw_guesses(report, out);
  draw_dropped(report, options, out);
  draw_setup(report, out);
  if (report.tokens) draw_tokens(*report.tokens, out);
  for (const std::string& warning : report.warnings) {
    out.write(Style::kYellow, "warning");
    out.print(": {}\n", printable(warning));
  }
  std::string counts;
  for (int v = 0; v < kVerdicts; ++v)
    if (report.counts[v] > 0)
      counts +=
          fmt::format("{}{} {}", counts.empty() ? "" : ", ", report.counts[v], to_string(static_cast<Verdict>(v)));
  out.print("{} compared: {}\n", report.tokens ? "all passes" : count_text(report.passes.size(), "pass", "passes"),
            counts.empty() ? "nothing" : counts);
}

}  // namespace ttap
