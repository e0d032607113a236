#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "analyze/diff/blame/cause.h"
#include "analyze/diff/blame/random_draws.h"
#include "analyze/diff/sides/tensor_names.h"
#include "analyze/ops/event_op.h"
#include "analyze/ops/role_flow.h"
#include "report/diff/diff_report.h"
#include "report/diff/quantized_words.h"
#include "report/text/text.h"

namespace ttap {
namespace {

std::string key_text_at(const DiffReport& report, DiffPlace place) {
  return printable(key_of(report.passes[place.pass], report.at(place)));
}

// The key; and, where something else stands in B in its place, what that is.
std::string key_and_other_at(const DiffReport& report, DiffPlace place) {
  const TensorDiff& tensor = report.at(place);
  const std::string key = key_text_at(report, place);
  if (tensor.match.by != MatchedBy::kPlace) return key;
  return fmt::format("{} (in B {})", key,
                     printable(to_string(report.passes[place.pass].b->tensor(tensor.match.b).key())));
}

bool both_nan(const Measures& found) {
  if (!found.worst) return false;
  const double a = to_double(found.worst->a), b = to_double(found.worst->b);
  return a != a && b != b;
}

uint64_t compared(const DiffReport& report) {
  uint64_t total = 0;
  for (const uint64_t count : report.counts) total += count;
  return total - report.count(Verdict::kMissing) - report.count(Verdict::kExtra) - report.not_compared;
}

// The pair that is furthest apart among those within tolerance.
std::optional<DiffPlace> largest_error(const DiffReport& report, double& error) {
  std::optional<DiffPlace> largest;
  for (uint32_t p = 0; p < report.passes.size(); ++p)
    for (uint32_t i = 0; i < report.passes[p].tensors.size(); ++i) {
      const auto& measures = report.passes[p].tensors[i].measures;
      const double relative = measures == nullptr ? 0 : relative_error(report.passes[p].tensors[i]);
      if (!(relative > error) || !std::isfinite(relative)) continue;
      error = relative;
      largest = DiffPlace{p, i};
    }
  return largest;
}

std::string unmatched_text(const DiffReport& report) {
  const uint64_t missing = report.count(Verdict::kMissing) - report.trivial_a;
  const uint64_t extra = report.count(Verdict::kExtra) - report.trivial_b;
  std::string text;
  if (missing > 0) text += fmt::format("; {} only in A", count_text(missing, "tensor is", "tensors are"));
  if (extra > 0) text += fmt::format("; {} only in B", count_text(extra, "tensor is", "tensors are"));
  const auto passes = [&](const std::vector<std::string>& only, std::string_view side) {
    if (!only.empty()) text += fmt::format("; {} only in {}", count_text(only.size(), "pass is", "passes are"), side);
  };
  passes(report.only_a, "A");
  passes(report.only_b, "B");
  if (report.not_compared > 0) text += fmt::format("; {} could not be compared", report.not_compared);
  return text;
}

uint64_t differing_count(const DiffReport& report) {
  uint64_t count = 0;
  for (const PassDiff& pass : report.passes)
    count += std::ranges::count_if(pass.tensors, [](const TensorDiff& tensor) { return differs(tensor); });
  return count;
}

// What the call that made a tensor says differently; of the argument of a module, the call whose code made it. Before
// that, the optimizer of a parameter, of its gradient or its state.
std::vector<const SettingDiff*> settings_of(const PassDiff& pass, const TensorDiff& tensor) {
  std::vector<const SettingDiff*> found;
  for (const SettingDiff& setting : pass.settings)
    if (std::ranges::find(setting.parameters, parameter_in(tensor.tensor_name)) != setting.parameters.end())
      found.push_back(&setting);
  if (pass.settings.empty() || tensor.match.a == kNoTensor) return found;
  const TensorRecord record = pass.a->tensor(tensor.match.a);
  if (record.event >= pass.a->event_count()) return found;
  EventRecord event = pass.a->event(record.event);
  const bool of_op = is_call_of_operator(event);
  if (is_input(record.role) && !of_op && event.parent < pass.a->event_count()) event = pass.a->event(event.parent);
  const std::string name =
      of_op && event.call != 1 ? fmt::format("{}::call{}", event.name, event.call) : std::string(event.name);
  for (const SettingDiff& setting : pass.settings)
    if (setting.call_a == name && setting.parameters.empty()) found.push_back(&setting);
  return found;
}

std::string shown_name(const TensorDiff& tensor) {
  const bool has_article =
      tensor.tensor_name.starts_with("gradient of ") || tensor.tensor_name.starts_with("state of ");
  return (has_article ? "the " : "") + printable(tensor.tensor_name);
}

// What an optimizer's operator updates, and what it was told differently: of those only the first.
std::string update_text(const TensorDiff& tensor) {
  return tensor.updates && !tensor.tensor_name.empty() ? " on " + shown_name(tensor) : std::string();
}
std::string update_setting_text(const PassDiff& pass, const TensorDiff& tensor) {
  if (!tensor.updates || tensor.tensor_name.empty()) return {};
  const std::vector<const SettingDiff*> settings = settings_of(pass, tensor);
  return settings.empty() ? std::string() : ": " + printable(settings.front()->text());
}

std::string divergence_in_words(const DiffReport& report) {
  const DiffPlace place = *report.first();
  const TensorDiff& tensor = report.at(place);
  const std::string key = key_and_other_at(report, place) + update_text(tensor);
  const std::string where =
      report.passes.size() > 1 ? fmt::format(" in {}", report.passes[place.pass].a->place()) : std::string();
  const bool sure = report.verdict == Verdict::kDiverged;
  const std::string_view word = sure ? "diverged" : "inconclusive";
  if (tensor.cause == Cause::kIntroduced) {
    const bool only_one_has_it = tensor.verdict == Verdict::kMissing || tensor.verdict == Verdict::kExtra;
    if ((only_one_has_it || tensor.is_wrong) && differing_count(report) == 0)
      return fmt::format("{}: {}{}", word, printable(tensor.reason), where);
    if (only_one_has_it)
      return fmt::format("{}: the error begins at {}{}, which only {} has", word, key, where,
                         tensor.verdict == Verdict::kMissing ? "A" : "B");
    if (is_input(record_of(report.passes[place.pass], tensor).role))
      return fmt::format("{}: code around {} introduced the error{}", word, key, where);
    return tensor.verdict == Verdict::kInconclusive
               ? fmt::format("{}: the bits first differ at {}{}, which introduced the difference", word, key, where)
               : fmt::format("{}: {} introduced the error{}", word, key, where);
  }
  if (is_parameter(record_of(report.passes[place.pass], tensor).role))
    return fmt::format("{}: the parameter {} differs{}: {}", word, key, where, printable(tensor.reason));
  if (is_input(record_of(report.passes[place.pass], tensor).role))
    return fmt::format("{}: {} came in different{}; no recorded operator introduced it", word, key, where);
  if (tensor.cause == Cause::kInherited)
    return fmt::format("{}: an error that was within tolerance grew past it at {}{}", word, key, where);
  if (report.passes[place.pass].a->info().format != Format::kSegment)
    return fmt::format("{}: {} of the tensors differ; the first in the file is {}{}", word,
                       share_text(differing_count(report), compared(report)), key, where);
  return fmt::format("{}: the runs first differ at {}{}; whether it introduced the error is unknown", word, key, where);
}

std::string divergence_sentence(const DiffReport& report) {
  const DiffPlace place = *report.first();
  return divergence_in_words(report) + update_setting_text(report.passes[place.pass], report.at(place));
}

// What cannot be measured does not pass for small: other shapes, and NaN unless the predicate speaks of it.
bool fails(const TensorDiff& tensor, const Predicate& predicate) {
  if (tensor.verdict == Verdict::kShapeMismatch) return true;
  if (tensor.verdict == Verdict::kInconclusive) return differs(tensor);
  if (tensor.measures == nullptr) return false;
  return predicate.holds(*tensor.measures) || (tensor.measures->nan_mismatches > 0 && !predicate.judges_nan()) ||
         (tensor.measures->inf_mismatches > 0 && !predicate.judges_inf());
}

// Empty where nothing hangs on a guess.
std::string guesses_sentence(const DiffReport& report) {
  uint64_t count = 0;
  const PassDiff* first = nullptr;
  for (const PassDiff& pass : report.passes) {
    count += pass.guesses.size();
    if (first == nullptr && !pass.guesses.empty()) first = &pass;
  }
  if (first == nullptr) return {};
  const Match& match = first->guesses.front();
  return fmt::format(
      "inconclusive: {} by structure, not sure enough to say that they diverged, and nothing agrees after them; the "
      "first is {}, perhaps {} in B ({:.0f} %). --map FILE says what belongs together; operators (--ops) need no "
      "names{}",
      count_text(count, "pair that differs was guessed", "pairs that differ were guessed"),
      printable(to_string(first->a->tensor(match.a).key())), printable(to_string(first->b->tensor(match.b).key())),
      std::floor(100 * match.confidence), unmatched_text(report));
}

}  // namespace

// What was lost while recording, of both sides.
static std::string losses_text(const DiffReport& report) {
  const std::string a = report.a.lost.text(), b = report.b.lost.text();
  return fmt::format("{}{}{}{}", a, a.empty() ? "" : " of A", a.empty() || b.empty() ? "" : ", and ",
                     b.empty() ? "" : b + " of B");
}

std::string verdict_sentence(const DiffReport& report) {
  const uint64_t pairs = compared(report);
  if (report.quantized_layer()) return fmt::format("{}: {}", to_string(report.verdict), quantized_sentence(report));
  if (report.follows_from_flip())
    return fmt::format("{}: rounding, then a near tie flipped at {}; all that differs follows from it",
                       to_string(report.verdict), key_text_at(report, *report.flipped));
  if (report.earliest) return divergence_sentence(report);
  if (std::string guesses = guesses_sentence(report); !guesses.empty()) return guesses;
  if (pairs == 0)
    return (report.not_compared > 0 ? "inconclusive: nothing could be compared"
                                    : "inconclusive: no tensor of A has a counterpart in B") +
           unmatched_text(report);
  if (report.verdict == Verdict::kInconclusive && (report.a.lost.any() || report.b.lost.any()))
    return fmt::format("inconclusive: {}; {} and {} within tolerance{}", losses_text(report),
                       count_text(report.count(Verdict::kIdentical), "tensor is identical", "tensors are identical"),
                       report.count(Verdict::kWithin), unmatched_text(report));
  if (report.verdict == Verdict::kInconclusive && report.tokens && report.tokens->gaps > 0)
    return fmt::format(
        "inconclusive: {} computed by one side only, between others of the same request; {} identical "
        "and {} within tolerance{}",
        count_text(report.tokens->gaps, "token was", "tokens were"), report.count(Verdict::kIdentical),
        report.count(Verdict::kWithin), unmatched_text(report));
  if (report.verdict == Verdict::kInconclusive && report.is_mostly_unmatched())
    return fmt::format("inconclusive: most tensors have no counterpart; of {} {} identical and {} within tolerance{}",
                       count_text(pairs, "pair", "pairs"), report.count(Verdict::kIdentical),
                       report.count(Verdict::kWithin), unmatched_text(report));
  if (report.verdict == Verdict::kIdentical)
    return fmt::format("identical: {} the same bits{}", count_text(pairs, "tensor has", "tensors have"),
                       unmatched_text(report));
  double error = 0;
  const auto largest = largest_error(report, error);
  const std::string most =
      largest ? fmt::format("; the largest relative error is {:.2g}, in {}", error, key_text_at(report, *largest))
              : std::string();
  const std::string part =
      report.first_unequal && report.count(Verdict::kIdentical) > 0
          ? fmt::format("; the bits first differ at {}", key_and_other_at(report, *report.first_unequal))
          : std::string();
  const std::string by =
      report.by_statistics > 0 ? fmt::format(", {} by their statistics only", report.by_statistics) : std::string();
  const std::vector<SettingDiff>& settings = report.passes.front().settings;
  const std::string said = settings.empty() ? std::string()
                                            : fmt::format("; {}: {}", printable(settings.front().call_a),
                                                          printable(settings.front().text()));
  const std::string flips =
      report.flipped ? fmt::format("; near ties flipped at {}", key_text_at(report, *report.flipped)) : std::string();
  const std::string quantized = quantized_sentence(report);
  return fmt::format("within tolerance: {} compared, {} of them identical{}{}{}{}{}{}{}{}",
                     count_text(pairs, "tensor", "tensors"), report.count(Verdict::kIdentical), by, most, part, said,
                     flips, quantized.empty() ? "" : "; ", quantized, unmatched_text(report));
}

// What an operator that writes to its argument writes to, where no name was recorded: where a module used the same
// tensor before, in this pass.
static std::string written_text(const Side& side, uint32_t tensor) {
  if (tensor == kNoTensor) return {};
  const TensorRecord record = side.tensor(tensor);
  if (record.event >= side.event_count()) return {};
  const EventRecord event = side.event(record.event);
  uint32_t object = kNoNumber;
  bool is_written = false;
  for (size_t i = 0; i < event.use_count; ++i)
    if (const UseRecord use = side.use(record.event, i); use.role == record.role && use.path == record.path)
      object = use.tensor;
  for (size_t i = 0; i < event.use_count; ++i)
    if (const UseRecord use = side.use(record.event, i); use.written) is_written |= use.tensor == object;
  if (object == kNoNumber || !is_written) return {};
  for (uint32_t k = 0; k < record.event; ++k) {
    const EventRecord earlier = side.event(k);
    if (!is_call_of_operator(earlier) || earlier.parent >= side.event_count()) continue;
    for (size_t i = 0; i < earlier.use_count; ++i)
      if (const UseRecord use = side.use(k, i); use.tensor == object && use.role == "in")
        return fmt::format("it writes to the tensor that is argument {} of {}", use.path.substr(1), earlier.name);
  }
  return {};
}

std::vector<std::string> evidence_lines(const DiffReport& report) {
  std::vector<std::string> lines;
  const auto place = report.first();
  if (!place) return lines;
  const PassDiff& pass = report.passes[place->pass];
  const TensorDiff& tensor = report.at(*place);
  if (report.quantized_layer()) {
    lines = quantized_lines(report);
    lines.push_back(fmt::format("first seen at {}", key_text_at(report, *report.earliest)));
    return lines;
  }
  // Of an end the sentence itself says it.
  if (tensor.cause != Cause::kNone && !tensor.reason.empty() && differing_count(report) > 0)
    lines.push_back(printable(tensor.reason));
  if (!tensor.tensor_name.empty())
    lines.push_back(fmt::format("it {} {}", tensor.updates ? "updates" : "is", shown_name(tensor)));
  for (const SettingDiff* setting : settings_of(pass, tensor))
    lines.push_back(setting->parameters.empty() ? "its " + printable(setting->text())
                                                : printable(fmt::format("{}: {}", setting->call_a, setting->text())));
  const bool in_both = tensor.match.a != kNoTensor && tensor.match.b != kNoTensor;
  if (in_both && (is_random_draw(*pass.a, tensor.match.a) || is_random_draw(*pass.b, tensor.match.b)))
    lines.push_back(
        "random numbers are drawn there: both runs need the same seed, and compiled code draws others unless "
        "torch._inductor.config.fallback_random is set");

  uint64_t identical = 0, within = 0;
  for (uint32_t i = 0; i < place->tensor; ++i) {
    identical += pass.tensors[i].verdict == Verdict::kIdentical;
    within += pass.tensors[i].verdict == Verdict::kWithin;
  }
  if (place->tensor > 0)
    lines.push_back(fmt::format("of the {} before it, {} identical and {} within tolerance",
                                count_text(place->tensor, "tensor", "tensors"), identical, within));
  for (const auto& [side, index] : {std::pair(pass.a.get(), tensor.match.a), std::pair(pass.b.get(), tensor.match.b)})
    if (const std::string written = tensor.tensor_name.empty() ? written_text(*side, index) : std::string();
        !written.empty()) {
      lines.push_back(written);
      break;
    }
  if (const Measures* found = tensor.measures.get(); is_measured(tensor)) {
    if (found->outside > 0)
      lines.push_back(fmt::format("{} of its values are out of tolerance ({})",
                                  share_text(found->outside, found->count), tensor.judge->source));
    if (relative_error(tensor) > tensor.judge->most_relative)
      lines.push_back(fmt::format("its error as a whole is {}{:.2g} of its size, more than {:.2g} ({})",
                                  tensor.evidence == Evidence::kSketch ? "about " : "", relative_error(tensor),
                                  tensor.judge->most_relative, tensor.judge->source));
    if (found->nan_mismatches + found->inf_mismatches > 0)
      lines.push_back(fmt::format("{} NaN and {} infinities do not match{}", found->nan_mismatches,
                                  found->inf_mismatches,
                                  both_nan(*found) ? " (NaN on both sides: --equal-nan lets it agree)" : ""));
  }
  for (const AxisWorst& axis : tensor.axes) {
    // Half of it in one of two halves says nothing.
    const auto entries =
        static_cast<double>(compared_shape(tensor, record_of(pass, tensor))[axis.axis]) /
        static_cast<double>(axis.width);
    if (axis.share < 0.5 || axis.share < 3 / entries) continue;
    const std::string which = axis.width == 1 ? fmt::format("index {} of axis {} holds", axis.first, axis.axis)
                                              : fmt::format("indices {} to {} of axis {} hold", axis.first,
                                                            axis.first + axis.width - 1, axis.axis);
    lines.push_back(fmt::format("{} {:.0f} % of the squared error", which, 100 * axis.share));
  }
  for (const uint32_t rank : tensor.ranks) lines.push_back(fmt::format("it is rank {}'s part", rank));
  if (report.earliest && *report.earliest != *place) {
    const TensorDiff& earliest = report.at(*report.earliest);
    const bool from_rank = earliest.source_pass != kNoTensor;
    lines.push_back(fmt::format("first seen at {}{}{}", key_text_at(report, *report.earliest),
                                report.earliest->pass == place->pass
                                    ? std::string()
                                    : fmt::format(" in {}", report.passes[report.earliest->pass].a->place()),
                                from_rank ? ": " + printable(earliest.reason) : std::string()));
  }
  std::set<std::string_view> names;
  for (const DiffPlace each : report.introduced)
    names.insert(record_of(report.passes[each.pass], report.at(each)).name);
  if (names.size() > 1) lines.push_back(fmt::format("{} operators introduced an error", names.size()));
  return lines;
}

Result<FailOn> FailOn::parse(const std::vector<std::string>& texts) {
  constexpr std::array kWords{"identical",      "within tolerance", "diverged",   "inconclusive", "missing", "extra",
                              "shape mismatch", "flipped",          "introduced", "inherited",    "unknown"};
  FailOn fail_on;
  for (const std::string& text : texts) {
    if (std::ranges::find(kWords, text) != kWords.end()) {
      fail_on.words_.push_back(text);
      continue;
    }
    auto predicate = Predicate::parse(text);
    if (!predicate.ok()) {
      Error error = std::move(predicate).error();
      error.hint = fmt::format("{}{}or one of {}", error.hint, error.hint.empty() ? "" : "; ", fmt::join(kWords, ", "));
      return error;
    }
    fail_on.predicates_.push_back(std::move(predicate).value());
  }
  return fail_on;
}

bool FailOn::holds(const DiffReport& report) const {
  const auto asks = [&](Verdict verdict) { return std::ranges::find(words_, to_string(verdict)) != words_.end(); };
  if (asks(Verdict::kMissing) && !report.only_a.empty()) return true;
  if (asks(Verdict::kExtra) && !report.only_b.empty()) return true;
  bool compared = false;
  for (const PassDiff& pass : report.passes)
    for (const TensorDiff& tensor : pass.tensors) {
      compared |= tensor.verdict == Verdict::kIdentical || tensor.evidence != Evidence::kNothing;
      for (const std::string& word : words_)
        if (word == to_string(tensor.verdict) || word == to_string(tensor.cause)) return true;
      for (const Predicate& predicate : predicates_)
        if (fails(tensor, predicate)) return true;
    }
  return !compared;  // nothing was shown to be well
}

bool is_same(const DiffReport& report, const FailOn& fail_on) {
  if (!fail_on.empty()) return !fail_on.holds(report);
  return report.verdict == Verdict::kIdentical || report.verdict == Verdict::kWithin;
}

}  // namespace ttap
