#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "analyze/diff/cause.h"
#include "report/diff_report.h"
#include "report/text.h"

namespace ttap {
namespace {

std::string key_text_at(const DiffReport& report, DiffPlace place) {
  return printable(key_of(report.passes[place.pass], report.at(place)));
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
      const double relative = measures == nullptr ? 0 : measures->rmse / measures->rms_a;
      if (!(relative > error) || !std::isfinite(relative)) continue;
      error = relative;
      largest = DiffPlace{p, i};
    }
  return largest;
}

std::string unmatched_text(const DiffReport& report) {
  const uint64_t missing = report.count(Verdict::kMissing), extra = report.count(Verdict::kExtra);
  std::string text;
  if (missing > 0) text += fmt::format("; {} only in A", count_text(missing, "tensor is", "tensors are"));
  if (extra > 0) text += fmt::format("; {} only in B", count_text(extra, "tensor is", "tensors are"));
  if (report.not_compared > 0) text += fmt::format("; {} could not be compared", report.not_compared);
  return text;
}

std::string parted_sentence(const DiffReport& report) {
  const DiffPlace place = *report.first();
  const TensorDiff& tensor = report.at(place);
  const std::string key = key_text_at(report, place);
  const std::string where =
      report.passes.size() > 1 ? fmt::format(" in {}", report.passes[place.pass].a->place()) : std::string();
  const bool sure = report.verdict == Verdict::kDiverged;
  const std::string_view word = sure ? "diverged" : "inconclusive";
  if (tensor.cause == Cause::kIntroduced) {
    return tensor.verdict == Verdict::kInconclusive
               ? fmt::format("{}: the bits part at {}{}, which introduced the difference", word, key, where)
               : fmt::format("{}: {} introduced the error{}", word, key, where);
  }
  if (is_input(record_of(report.passes[place.pass], tensor).role))
    return fmt::format("{}: {} came in different{}; no recorded operator introduced it", word, key, where);
  if (tensor.cause == Cause::kInherited)
    return fmt::format("{}: an error that was within tolerance grew past it at {}{}", word, key, where);
  return fmt::format("{}: the runs part first at {}{}; whether it introduced the error is unknown", word, key, where);
}

}  // namespace

std::string verdict_sentence(const DiffReport& report) {
  const uint64_t pairs = compared(report);
  if (report.earliest) return parted_sentence(report);
  if (pairs == 0)
    return (report.not_compared > 0 ? "inconclusive: nothing could be compared"
                                    : "inconclusive: no tensor of A has a counterpart in B") +
           unmatched_text(report);
  if (report.verdict == Verdict::kIdentical)
    return fmt::format("identical: {} the same bits{}", count_text(pairs, "tensor has", "tensors have"),
                       unmatched_text(report));
  double error = 0;
  const auto largest = largest_error(report, error);
  const std::string most =
      largest ? fmt::format("; the largest relative error is {:.2g}, in {}", error, key_text_at(report, *largest))
              : std::string();
  return fmt::format("within tolerance: {} compared, {} of them identical{}{}", count_text(pairs, "tensor", "tensors"),
                     report.count(Verdict::kIdentical), most, unmatched_text(report));
}

std::vector<std::string> evidence_lines(const DiffReport& report) {
  std::vector<std::string> lines;
  const auto place = report.first();
  if (!place) return lines;
  const PassDiff& pass = report.passes[place->pass];
  const TensorDiff& tensor = report.at(*place);
  if (tensor.cause != Cause::kNone && !tensor.reason.empty()) lines.push_back(printable(tensor.reason));

  uint64_t identical = 0, within = 0;
  for (uint32_t i = 0; i < place->tensor; ++i) {
    identical += pass.tensors[i].verdict == Verdict::kIdentical;
    within += pass.tensors[i].verdict == Verdict::kWithin;
  }
  if (place->tensor > 0)
    lines.push_back(fmt::format("of the {} before it, {} identical and {} within tolerance",
                                count_text(place->tensor, "tensor", "tensors"), identical, within));
  if (const Measures* found = tensor.measures.get(); found != nullptr && tensor.evidence == Evidence::kValues) {
    if (found->outside > 0)
      lines.push_back(fmt::format("{} of its values are out of tolerance ({})",
                                  share_text(found->outside, found->count), tensor.judge->source));
    if (found->rmse > tensor.judge->most_relative * found->rms_a)
      lines.push_back(fmt::format("its error as a whole is {:.2g} of its size, more than {:.2g} ({})",
                                  found->rmse / found->rms_a, tensor.judge->most_relative, tensor.judge->source));
    if (found->nan_mismatches + found->inf_mismatches > 0)
      lines.push_back(
          fmt::format("{} NaN and {} infinities do not match", found->nan_mismatches, found->inf_mismatches));
  }
  for (const AxisWorst& axis : tensor.axes) {
    // Half of it in one of two halves says nothing.
    const auto entries =
        static_cast<double>(record_of(pass, tensor).shape[axis.axis]) / static_cast<double>(axis.width);
    if (axis.share < 0.5 || axis.share < 3 / entries) continue;
    const std::string which = axis.width == 1 ? fmt::format("index {} of axis {} holds", axis.first, axis.axis)
                                              : fmt::format("indices {} to {} of axis {} hold", axis.first,
                                                            axis.first + axis.width - 1, axis.axis);
    lines.push_back(fmt::format("{} {:.0f} % of the squared error", which, 100 * axis.share));
  }
  for (const uint32_t rank : tensor.ranks) lines.push_back(fmt::format("it is rank {}'s part", rank));
  if (report.earliest && *report.earliest != *place && report.earliest->pass == place->pass)
    lines.push_back(fmt::format("{} parted before it", key_text_at(report, *report.earliest)));
  if (report.introduced.size() > 1)
    lines.push_back(fmt::format("{} operators introduced an error of their own", report.introduced.size()));
  return lines;
}

Result<FailOn> FailOn::parse(const std::vector<std::string>& texts) {
  constexpr std::array kWords{"identical", "within tolerance", "diverged",   "inconclusive", "missing",
                              "extra",     "shape mismatch",   "introduced", "inherited",    "unknown"};
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
  for (const PassDiff& pass : report.passes)
    for (const TensorDiff& tensor : pass.tensors) {
      for (const std::string& word : words_)
        if (word == to_string(tensor.verdict) || word == to_string(tensor.cause)) return true;
      if (tensor.measures != nullptr)
        for (const Predicate& predicate : predicates_)
          if (predicate.holds(*tensor.measures)) return true;
    }
  return false;
}

bool is_same(const DiffReport& report, const FailOn& fail_on) {
  if (!fail_on.empty()) return !fail_on.holds(report);
  return report.verdict == Verdict::kIdentical || report.verdict == Verdict::kWithin;
}

}  // namespace ttap
