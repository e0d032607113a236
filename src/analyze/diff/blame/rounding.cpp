#include "analyze/diff/blame/rounding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "analyze/diff/blame/cause.h"
#include "analyze/diff/judge/statistics.h"
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
constexpr double kMostSteps = 100;
// One element beside the root mean square of all, as in the default tolerances.
constexpr double kOfOneElement = 10;
// What was made of rounding may hold this many times the share that was measured, and never more than kMostShare: two
// runs of nothing but rounding are about as large.
constexpr double kGrowth = 8;
constexpr double kMostShare = 8;
// Terms of any sign come to the root of their number times their size. What is this much smaller has cancelled.
constexpr double kOfWhatCancels = 1.0 / 16;
// Rounding has nothing to do with the value, a wrong factor is in proportion to it. In fewer elements there is no
// telling.
constexpr double kProportional = 0.9;
constexpr uint64_t kFewElements = 16;
constexpr int kDeepestUnmatched = 64;  // ops that only one side has, above one another

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

double Rounding::floor_of(uint32_t position) const {
  const Match& match = tensors_[position].match;
  const double in_a = match.a == kNoTensor ? kNothingKnown : floor_in(a_, match.a, position, 0);
  const double in_b = match.b == kNoTensor ? kNothingKnown : floor_in(b_, match.b, position, 0);
  return std::fmax(in_a, in_b);
}

double Rounding::floor_in(const Shares& of, uint32_t record, uint32_t at, int depth) const {
  const Side& side = of.side;
  const TensorRecord made = side.tensor(record);
  if (made.event >= side.event_count() || is_input(made.role)) return kNothingKnown;
  const EventRecord event = side.event(made.event);
  // A kernel does many things at once, and its name does not say to which of its arguments.
  if (!is_op(event) || is_placeholder(event) || event.kind == "kernel" || event.use_count == 0) return kNothingKnown;
  const std::string op = operator_of(event);
  const bool lists = takes_lists(op);
  const Place own = place_of(made.path);
  const std::string_view entry = !lists ? std::string_view() : own.entry.empty() ? own.argument.substr(1) : own.entry;

  std::vector<SummedTensor> given, results;
  std::vector<double> shares;  // of each of them: how much of it is rounding
  for (uint32_t k = 0; k < event.use_count; ++k) {
    const UseRecord use = side.use(made.event, k);
    if (use.record >= of.position_of.size()) {
      if (use.role == "in" && !is_for_results(use.path)) return kNothingKnown;
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
    const double share = share_of(of, use.record, at, depth);
    if (std::isnan(share)) return kNothingKnown;
    const auto argument = summed_tensor(place.argument, value);
    if (!argument || epsilon_of(dtype_of(value)) == 0) continue;
    // Beside a mask nothing else would count.
    if (argument->max_abs >= kSentinel) return kNothingKnown;
    given.push_back(*argument);
    shares.push_back(std::max(share, epsilon_of(dtype_of(value))));
  }
  const auto result = summed_tensor(made.path, made);
  if (!result || epsilon_of(dtype_of(made)) == 0) return kNothingKnown;
  const auto summed =
      summed_in({.op = op, .text = event.arguments, .given = given, .made = results, .result = *result});
  if (!summed) {
    const double most = shares.empty() ? 0 : std::ranges::max(shares);
    return most * result->rms;
  }
  // Sums of numbers with few digits are made with more of them.
  const double step = std::min(epsilon_of(dtype_of(made)), epsilon_of(DType::kF32));
  // Where nothing cancels the default tolerances have room for rounding.
  const bool cancels = result->rms < kOfWhatCancels * summed->scale / std::sqrt(summed->terms);
  const double steps = std::min(kOfAStep + std::sqrt(summed->terms), kMostSteps);
  double floor = cancels ? steps * step * summed->scale : 0;
  for (size_t k = 0; k < given.size(); ++k)
    floor += shares[k] * (summed->shares.empty() ? summed->scale / std::sqrt(summed->terms) : summed->shares[k]);
  return floor;
}

double Rounding::share_of(const Shares& of, uint32_t record, uint32_t at, int depth) const {
  if (const uint32_t position = of.position_of[record]; is_paired(position)) {
    const TensorDiff& tensor = tensors_[position];
    if (tensor.rounding > 0) return tensor.rounding;
    // Of several values that a kernel made at once some come later.
    if (differs(tensor)) return position > at && tensor.like_rounding ? 0 : kNothingKnown;
    return tensor.measures == nullptr || !(tensor.measures->rms_a > 0) ? 0 : relative_error(tensor);
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
  const double along = (m.rms_b * m.rms_b - m.rms_a * m.rms_a - m.rmse * m.rmse) / (2 * m.rms_a * m.rmse);
  return std::abs(along) > kProportional;
}

}  // namespace

bool is_below(double floor, const TensorDiff& tensor) {
  const Measures* measures = tensor.measures.get();
  const Judge* judge = tensor.judge.get();
  // What the user asked for is what counts.
  if (measures == nullptr || judge == nullptr || judge->predicate || !std::isfinite(judge->most_relative)) return false;
  if (measures->nan_mismatches + measures->inf_mismatches > 0 || is_in_proportion(tensor)) return false;
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
