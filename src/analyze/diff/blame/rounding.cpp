#include "analyze/diff/blame/rounding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string>

#include "analyze/diff/blame/cause.h"
#include "analyze/diff/judge/compare_fingerprints.h"
#include "analyze/diff/judge/own_error.h"
#include "analyze/diff/match/ops/op_list.h"
#include "analyze/ops/event_op.h"
#include "analyze/ops/op_facts.h"

namespace ttap {
namespace {

constexpr double kNothingKnown = std::numeric_limits<double>::quiet_NaN();
// Times the rounding of one step beside the sum of all magnitudes: for two terms, and for the many steps of a sum, as
// if they rounded independently. The gradient of a bias before a batch norm, 256 terms, was seen to need 18. The most
// is such that a fault of some percent shows in a sum of a million terms of any sign.
constexpr double kOfAStep = 8;
constexpr double kMostRoundings = 100;
// One element beside the root mean square of all, as in the default tolerances.
constexpr double kOfOneElement = 10;
// What was made of rounding may hold this many times the share that was measured, and never more than kMostShare: two
// runs of nothing but rounding are about as large.
constexpr double kGrowth = 8;
constexpr double kMostShare = 8;
// Terms of any sign come to the root of their number times their size. What is this many times smaller has cancelled.
constexpr double kOfWhatCancels = 16;
// The errors of the terms of a sum, too; three standard deviations of it, or of one element's.
constexpr double kOfErrors = 3;
// Partial sums that are rounded to a narrow dtype are off by 0.29 steps of the sum of all magnitudes, between two runs
// with terms of any sign; by the root of k less where only every k-th is rounded.
constexpr double kOfPartialSums = 0.5;
// Rounding has nothing to do with the value, a wrong factor is in proportion to it. In fewer elements there is no
// telling, nor where fewer have all of the error.
constexpr double kProportional = 0.9;
constexpr uint64_t kFewElements = 16;
constexpr double kFewWithError = 4;
constexpr double kProportionAmplified = 2;  // what came in in proportion
constexpr int kDeepestUnmatched = 64;       // ops that only one side has, above one another

double rms_in(const TensorRecord& record) {
  const auto tensor = summed_tensor({}, record);
  return tensor ? tensor->rms : kNothingKnown;
}

// Of the lists of a call that takes many tensors at once, only the entries at the same place belong to a result.
struct Place {
  std::string_view argument = {};  // "/0"
  std::string_view entry = {};     // "3"; empty for none
};
Place place_of(std::string_view path) {
  const size_t slash = path.find('/', 1);
  return slash == std::string_view::npos ? Place{path, {}} : Place{path.substr(0, slash), path.substr(slash + 1)};
}
bool takes_lists(std::string_view op) {
  const std::string_view name = plain_op(op);
  return name.starts_with("_foreach_") || name.starts_with("_fused_ad") || name.starts_with("_fused_sgd");
}

}  // namespace

Rounding::Rounding(const Side& a, const Side& b, std::span<const TensorDiff> tensors)
    : tensors_(tensors), a_(a, tensors, &Match::a), b_(b, tensors, &Match::b) {}

bool Rounding::is_paired(uint32_t position) const {
  return position != kNoTensor && tensors_[position].match.a != kNoTensor && tensors_[position].match.b != kNoTensor;
}

// Whether its error was measured, and not settled as rounding, which is allowed to grow.
bool Rounding::is_measured_error(const Shares& of, uint32_t record) const {
  const uint32_t position = of.position_of[record];
  return is_paired(position) && tensors_[position].rounding == 0;
}

// 0 where one side does not have the value.
double Rounding::mean_error(const Shares& of, uint32_t record) const {
  const uint32_t position = of.position_of[record];
  if (!is_paired(position)) return 0;
  const Match& match = tensors_[position].match;
  const double error = b_.side.tensor(match.b).fingerprint.stats.mean - a_.side.tensor(match.a).fingerprint.stats.mean;
  return std::isfinite(error) ? error : 0;
}

double Rounding::floor_of(uint32_t position) const {
  const Match& match = tensors_[position].match;
  const double in_a = match.a == kNoTensor ? kNothingKnown : floor_in(a_, match.a, position, 0);
  const double in_b = match.b == kNoTensor ? kNothingKnown : floor_in(b_, match.b, position, 0);
  return std::fmax(in_a, in_b);
}

// What a call of an operator was given, and what it made of that.
struct Rounding::Call {
  std::vector<SummedTensor> given = {};
  std::vector<uint32_t> records = {};  // of those
  std::vector<double> steps = {};      // of their dtypes
  std::vector<uint32_t> choices = {};  // records of arguments that are no floats
  SummedTensor result = {};
  double step = 0;  // of its dtype; 0 for a choice, which is not rounded
  std::optional<Summed> summed = {};

  // What terms of any sign come to.
  double expected() const {
    if (summed->shares.empty()) return summed->scale / std::sqrt(summed->terms);
    return std::sqrt(std::inner_product(summed->shares.begin(), summed->shares.end(), summed->shares.begin(), 0.0));
  }
  double cancellation() const {
    const double times = summed ? expected() / result.rms : 1;
    return times > 1 ? times : 1;
  }
  // By adding up alone.
  double own_floor() const {
    if (!summed) return 0;
    const double narrow =
        summed->rounded_every > 0 ? kOfPartialSums * step * summed->scale / std::sqrt(summed->rounded_every) : 0;
    // Sums of numbers with few digits are made with more of them.
    const double wide = std::min(step, epsilon_of(DType::kF32));
    const double roundings = std::min(kOfAStep + std::sqrt(summed->terms), kMostRoundings);
    // Where nothing cancels the default tolerances have room for rounding.
    return narrow + (cancellation() > kOfWhatCancels ? roundings * wide * summed->scale : 0);
  }
};

std::optional<Rounding::Call> Rounding::call_of(const Shares& of, uint32_t record) const {
  const Side& side = of.side;
  const TensorRecord made = side.tensor(record);
  if (made.event >= side.event_count() || is_input(made.role)) return std::nullopt;
  const EventRecord event = side.event(made.event);
  // A kernel does many things at once, and its name does not say to which of its arguments.
  if (!is_op(event) || is_placeholder(event) || event.kind == "kernel" || event.use_count == 0) return std::nullopt;
  const std::string op = operator_of(event);
  const bool lists = takes_lists(op);
  const Place own = place_of(made.path);
  const std::string_view entry = !lists ? std::string_view() : own.entry.empty() ? own.argument.substr(1) : own.entry;

  Call call;
  std::vector<SummedTensor> results;
  for (uint32_t k = 0; k < event.use_count; ++k) {
    const UseRecord use = side.use(made.event, k);
    if (use.record >= of.position_of.size()) {
      if (use.role == "in" && !is_for_results(use.path)) return std::nullopt;
      continue;
    }
    const TensorRecord value = side.tensor(use.record);
    if (use.role == "out") {
      if (const auto result = summed_tensor(use.path, value)) results.push_back(*result);
      continue;
    }
    if (use.role != "in" || is_for_results(use.path) || use.record == record) continue;
    const Place place = place_of(use.path);
    if (lists && !place.entry.empty() && place.entry != entry) continue;
    const auto argument = summed_tensor(place.argument, value);
    const double step = epsilon_at(dtype_of(value), argument ? argument->rms : 0);
    if (!argument || step == 0) {
      call.choices.push_back(use.record);
      continue;
    }
    // Beside a mask nothing else would count.
    if (argument->max_abs >= kSentinel) return std::nullopt;
    call.given.push_back(*argument);
    call.records.push_back(use.record);
    call.steps.push_back(step);
  }
  call.step = epsilon_of(dtype_of(made));
  if (call.step == 0) return call;
  const auto result = summed_tensor(made.path, made);
  if (!result) return std::nullopt;
  call.result = *result;
  call.step = epsilon_at(dtype_of(made), result->rms);
  call.summed = summed_in({.op = op, .text = event.arguments, .given = call.given, .made = results, .result = *result});
  return call;
}

double Rounding::floor_in(const Shares& of, uint32_t record, uint32_t at, int depth) const {
  const auto call = call_of(of, record);
  if (!call || (call->step == 0 && depth == 0)) return kNothingKnown;
  for (const uint32_t choice : call->choices)
    if (std::isnan(share_of(of, choice, at, depth))) return kNothingKnown;
  double floor = call->own_floor(), all = 0;  // of the factors of a product
  for (size_t k = 0; k < call->given.size(); ++k) {
    const double share = share_of(of, call->records[k], at, depth);
    if (std::isnan(share)) return kNothingKnown;
    // What counts are the largest elements of a product or a sum, and any of them may have one of the largest errors.
    const bool several = call->given.size() > 1 || call->summed;
    const double most = several && is_measured_error(of, call->records[k]) ? kOfErrors : 1;
    if (!call->summed) {
      all += std::max(most * share, call->steps[k]);
      continue;
    }
    if (!call->summed->shares.empty()) {
      floor += std::max(share, call->steps[k]) * call->summed->shares[k];
      continue;
    }
    // The errors of terms that do not cancel may add up as the terms do.
    const double spread = std::min({std::max(call->cancellation(), most), kOfErrors, std::sqrt(call->summed->terms)});
    const double size = std::max(call->expected(), call->result.rms);
    floor += std::max(spread * share * size, call->steps[k] * call->expected());
    // Errors that have one sign add up as they are.
    if (call->result.count == 1 && call->given.size() == 1)
      floor += std::abs(mean_error(of, call->records[k])) * call->summed->scale / call->given[k].rms;
  }
  // The relative errors of factors add up.
  return call->summed ? floor : all * call->result.rms;
}

double Rounding::largest_of(uint32_t position, double least, double (Call::*what)() const) const {
  const Match& match = tensors_[position].match;
  double largest = least;
  for (const auto& [of, record] : {std::pair(&a_, match.a), std::pair(&b_, match.b)}) {
    if (record == kNoTensor) continue;
    if (const auto call = call_of(*of, record)) largest = std::max(largest, (*call.*what)());
  }
  return largest;
}

double Rounding::own_floor_of(uint32_t position) const { return largest_of(position, 0, &Call::own_floor); }
double Rounding::cancellation_of(uint32_t position) const { return largest_of(position, 1, &Call::cancellation); }

double Rounding::share_of(const Shares& of, uint32_t record, uint32_t at, int depth) const {
  if (const uint32_t position = of.position_of[record]; is_paired(position)) {
    const TensorDiff& tensor = tensors_[position];
    if (tensor.rounding > 0) return tensor.rounding;
    // Of several values that a kernel made at once some come later.
    if (differs(tensor)) return position > at && tensor.like_rounding ? 0 : kNothingKnown;
    if (tensor.verdict == Verdict::kFlipped) return kNothingKnown;
    if (tensor.measures == nullptr || !(tensor.measures->rms_a > 0)) return 0;
    return most_relative_error(a_.side, b_.side, tensor);
  }
  const TensorRecord value = of.side.tensor(record);
  if (value.event >= of.side.event_count()) return kNothingKnown;
  const EventRecord event = of.side.event(value.event);
  if (is_input(value.role) || is_placeholder(event) || leaves_undefined(event)) return 0;
  if (const auto found = of.shares.find(record); found != of.shares.end()) return found->second;
  if (depth >= kDeepestUnmatched) return kNothingKnown;
  const double rms = rms_in(value);
  const double floor = floor_in(of, record, at, depth + 1);
  const double share = rms > 0 ? std::min(floor / rms, kMostShare) : floor > 0 ? kMostShare : floor;
  of.shares.emplace(record, share);
  return share;
}

namespace {

bool is_in_proportion(const TensorDiff& tensor) {
  const Measures& m = *tensor.measures;
  if (!is_measured(tensor) || m.finite < kFewElements || m.rmse > m.rms_a / 2) return false;
  const double share_of_worst = m.rmse / m.max_abs;
  if (static_cast<double>(m.finite) * share_of_worst * share_of_worst < kFewWithError) return false;
  return std::abs(along_values(m)) > kProportional;
}

}  // namespace

double error_in_proportion(const TensorDiff& tensor) {
  if (!is_measured(tensor) || !(tensor.measures->rmse > 0)) return 0;
  return std::abs(along_values(*tensor.measures)) * tensor.measures->rmse / tensor.measures->rms_a;
}

bool is_below(double floor, const TensorDiff& tensor, double came_in_proportion) {
  const Measures* measures = tensor.measures.get();
  const Judge* judge = tensor.judge.get();
  // What the user asked for is what counts.
  if (measures == nullptr || judge == nullptr || judge->predicate || !std::isfinite(judge->most_relative)) return false;
  if (measures->nan_mismatches + measures->inf_mismatches > 0) return false;
  if (is_in_proportion(tensor) && error_in_proportion(tensor) > kProportionAmplified * came_in_proportion) return false;
  return measures->rmse <= floor && measures->max_abs <= std::max(judge->tolerance.atol, kOfOneElement * floor);
}

bool is_nothing_but_rounding(double floor, const TensorDiff& tensor) {
  return is_below(floor, tensor) && tensor.measures->rms_a + tensor.measures->rms_b <= floor;
}

void accept_as_rounding(double floor, TensorDiff& tensor) {
  Measures& measures = *tensor.measures;
  const double rms = std::max(measures.rms_a, measures.rms_b);
  const double share = is_measured(tensor) ? kGrowth * measures.rmse / rms : floor / rms;
  tensor.rounding = std::isfinite(share) ? std::min(share, kMostShare) : kMostShare;
  tensor.verdict = Verdict::kWithin;
  if (!is_measured(tensor)) tensor.evidence = Evidence::kStatistics;
  tensor.reason.clear();
  Judge& judge = *tensor.judge;
  judge.tolerance.atol = std::max(judge.tolerance.atol, kOfOneElement * floor);
  judge.scale = floor / judge.most_relative;
  judge.source += ", beside what was summed";
  measures.outside = 0;
  const char* what = measures.rms_a <= floor ? "it is zero but for rounding" : "its error is rounding";
  tensor.note +=
      fmt::format("{}{}: rounding of what was summed explains {:.2g}", tensor.note.empty() ? "" : "; ", what, floor);
}

}  // namespace ttap
