#include "analyze/diff/judge/own_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyze/compare/tolerance.h"
#include "analyze/diff/judge/compare_fingerprints.h"
#include "analyze/diff/sides/made_value.h"
#include "core/element.h"

namespace ttap {
namespace {

// In steps of the dtype (from 1 to the next value). One rounding is off by at most half a step of the value, two
// results of it by one; what is rounded on the way may be larger than what is left of it, hence as many steps of the
// tensor's root mean square again. All together: independent roundings come to 0.2 steps each.
struct Bound {
  double value;  // of one value, beside itself and beside the root mean square
  double whole;  // of the root mean square error, beside that of the tensor
};
constexpr Bound kSumsInF16 = {16, 2.5};  // convolutions without oneDNN need 12 and 2
Bound bound_in(DType dtype, CallSize size) {
  Bound bound = {8, 2};
  switch (size) {
    case CallSize::kOneRounding: bound = {2, 0.5}; break;
    case CallSize::kFewRoundings: bound = {4, 1}; break;
    // In sound pairs of 14 architectures in bf16 and f16 no more than 0.66.
    case CallSize::kModule: bound = {8, 1.25}; break;
    case CallSize::kCode: break;
  }
  if (dtype != DType::kF16) return bound;
  return {std::max(bound.value, kSumsInF16.value), std::max(bound.whole, kSumsInF16.whole)};
}

// Rounding has no preference: what it adds has next to nothing to do with the value, and as often one sign as the
// other. In few elements chance may look like it, and so may one rounded factor of a whole row, hence the steps.
constexpr double kPreference = 0.5;
constexpr double kPreferenceOfCall = 0.3;  // beside what came in, of a call that is not attention or other code
constexpr double kOfChance = 8;            // over the root of the number of elements
constexpr double kStepsOfPreference = 1;
constexpr double kStepsOfSums = 16;  // where the sums themselves are made in the dtype
// Of the squared error, in one entry of an axis of at least this many; and how far off a value of it is then.
constexpr double kInOnePlace = 0.9;
constexpr double kFewestPlaces = 8;
// Less of it will do where the error there, beside the values, is ten times that of the other entries.
constexpr double kMostInOnePlace = 0.5;
constexpr double kBesideOthers = 100;  // squared
constexpr double kStepsInOnePlace = 3;
constexpr double kStepsOfSumsInOnePlace = 100;

// Of a sketch's estimate: the error is in few buckets.
constexpr double kSpreadOfFew = 0.25;

// What came in may grow this many times: sound operators of real models let an error grow up to 6 times. A factor or a
// sign of it, less.
constexpr double kGrown = 8;
constexpr double kAmplified = 2;
// Calls of one kind let errors grow alike. In sound pairs of f32 and 16 bits, of 15 models, no growth was above 2, and
// none 1.6 times that of the same place in other layers.
constexpr double kStandsOut = 1.5;
constexpr double kStandsFarOut = 2.5;
constexpr double kStandsOutAlone = 3;
constexpr uint64_t kFewestOthers = 2;
// One rounding, in steps, as a root mean square; sums may be made in f16, by many of them.
constexpr double kOneRounding = 0.29;
constexpr double kRoundingOfF16Sums = 2;
constexpr double kRoundingsOfCode = 0.75;  // of attention in two implementations 0.67 to 0.78, given the same bits
// Of the values: zero on one side only.
constexpr double kManyZeros = 0.25;
// Of a call that rounds once.
constexpr double kFew = 0.25;
constexpr double kMostSteps = 2.5;

bool has_statistics(const Match& match, const TensorRecord& a, const TensorRecord& b) {
  if (match.is_made()) return false;  // they are those of other values
  // Beside a mask nothing else shows in a sum.
  return a.has_fingerprint && b.has_fingerprint && a.fingerprint.stats.finite() == b.fingerprint.stats.finite() &&
         !is_masked(a.fingerprint.stats.min);
}

// Sums in another order, rounded once, move a value in hundreds to the next step, and no further.
std::string by_distance(const Measures& m, DType dtype) {
  const auto unequal = static_cast<double>(m.unequal), count = static_cast<double>(m.count);
  if (!m.worst || unequal > kFew * count) return {};
  const double value = std::max(std::abs(to_double(m.worst->a)), std::abs(to_double(m.worst->b)));
  const double own_step = value > 0 ? epsilon_at(dtype, value) * std::exp2(std::floor(std::log2(value))) : 0;
  // What is left where terms cancel is off by the rounding of the sum, in f32, however small it is itself.
  const double of_sum = kStepsOfSums * epsilon_of(DType::kF32) * m.rms_a;
  if (!(m.max_abs > std::max(kMostSteps * own_step, of_sum))) return {};
  return fmt::format("{} of its {} values differ, one by {:.2g} steps, and rounding in another order moves few by one",
                     m.unequal, m.count, m.max_abs / own_step);
}

std::string by_whole(const Measures& m, double step, Bound bound) {
  const double whole = m.rmse / m.rms_a;
  if (!(whole > bound.whole * step)) return {};
  return fmt::format("its error as a whole is {:.2g} of its size, and rounding there explains {:.2g}", whole,
                     bound.whole * step);
}

// Of sketches: a few values have all of the error, and that is more than the largest there is would be rounded by.
std::string by_few(const TensorRecord& a, const TensorRecord& b, const Measures& m, double step, Bound bound) {
  const Sketch &x = a.fingerprint.sketch, &y = b.fingerprint.sketch;
  if (sketch_spread(x, y) < kSpreadOfFew) return {};
  const double error = m.rmse * std::sqrt(static_cast<double>(m.finite));
  const double most = bound.value * step * (a.fingerprint.stats.max_abs + m.rms_a);
  if (!(error > most)) return {};
  return fmt::format("few of its values have all of its error, {:.2g}, and rounding of the largest explains {:.2g}",
                     error, most);
}

std::string by_size(const Measures& m, double step, Bound bound) {
  if (std::string reason = by_whole(m, step, bound); !reason.empty()) return reason;
  const double value = m.worst ? std::abs(to_double(m.worst->a)) : 0;
  const double most = bound.value * step * (value + m.rms_a);
  if (m.max_abs > most)
    return fmt::format("one value is off by {:.2g}, and rounding there explains {:.2g}", m.max_abs, most);
  return {};
}

// Values in f32 that were made of bf16 are granted more than f32 where they have come a long way, and not here.
std::string by_tolerance(const Measures& m, DType dtype) {
  const double whole = m.rmse / m.rms_a, most = default_tolerance(dtype).relative;
  if (!(whole > most)) return {};
  return fmt::format("its error as a whole is {:.2g} of its size, and rounding in {} explains {:.2g}", whole,
                     dtype_name(dtype), most);
}

std::string by_proportion(const Measures& m, double least, double preference = kPreference) {
  const double along = along_values(m);
  const double chance = kOfChance / std::sqrt(static_cast<double>(m.finite));
  const double factor = along * m.rmse / m.rms_a;
  if (!(std::abs(along) > std::max(preference, chance)) || !(std::abs(factor) > least)) return {};
  return fmt::format("its error is in proportion to the values, like a factor of {:.6g}, which rounding never is",
                     1 + factor);
}

std::string by_bias(const Measures& m, double mean, double least) {
  const double chance = kOfChance / std::sqrt(static_cast<double>(m.finite));
  if (!(std::abs(mean) > std::max(kPreference, chance) * m.rmse) || !(std::abs(mean) > least * m.rms_a)) return {};
  return fmt::format("its error has one sign, {:+.2g} on average, which rounding never has", mean);
}

// A value that rounds to zero is far smaller than those beside it.
std::string by_zeros(const Stats& a, const Stats& b) {
  const uint64_t more = std::max(a.zeros, b.zeros) - std::min(a.zeros, b.zeros);
  if (!(static_cast<double>(more) > kManyZeros * static_cast<double>(a.count))) return {};
  return fmt::format("{} of its {} values are zero in A and {} in B, and rounding leaves few values zero", a.zeros,
                     a.count, b.zeros);
}

// The root mean square of A's values in one entry of an axis.
double rms_in(const TensorView& view, const AxisWorst& axis) {
  if (!is_contiguous(view) || dtype_info(view.dtype).kind != DTypeKind::kFloat || view.dtype == DType::kF4E2M1FNx2)
    return std::nan("");
  uint64_t inner = 1;
  for (size_t k = axis.axis + 1; k < view.shape.size(); ++k) inner *= static_cast<uint64_t>(view.shape[k]);
  const auto length = static_cast<uint64_t>(view.shape[axis.axis]);
  const uint64_t size = size_of(view.dtype), count = element_count(view);
  double sum = 0;
  uint64_t values = 0;
  for (uint64_t block = 0; block < count; block += length * inner)
    for (uint64_t i = block + axis.first * inner; i < block + std::min(axis.first + axis.width, length) * inner; ++i) {
      const double x = value_of(view.dtype, static_cast<const std::byte*>(view.data) + i * size);
      if (!std::isfinite(x)) continue;
      sum += x * x;
      ++values;
    }
  return values == 0 ? std::nan("") : std::sqrt(sum / static_cast<double>(values));
}

// How many times larger the squared error of an entry is than that of the others, each beside its own size.
double beside_others(double share, double entries, double size, double rms) {
  const double squared = size * size, others = (rms * rms * entries - squared) / (entries - 1);
  return share / (1 - share) * (entries - 1) * others / squared;
}

std::string by_place(const Side& a, const TensorDiff& tensor, double step, double steps) {
  const Measures& m = *tensor.measures;
  const TensorRecord record = a.tensor(tensor.match.a);
  const std::span<const int64_t> shape = tensor.shape.empty() ? record.shape : std::span<const int64_t>(tensor.shape);
  for (const AxisWorst& axis : tensor.axes) {
    const double entries = static_cast<double>(shape[axis.axis]) / static_cast<double>(axis.width);
    if (axis.share < kMostInOnePlace || entries < kFewestPlaces) continue;
    const double value = m.worst ? std::abs(to_double(m.worst->a)) : 0;
    if (!(axis.max_abs > steps * step * std::max(value, m.rms_a))) continue;
    const auto bytes = read_made(a, tensor.match.a, tensor.match.made_a.get());
    if (!bytes.ok()) continue;
    const double size = rms_in(bytes->view, axis);
    if (!(axis.max_abs > steps * step * size)) continue;
    if (axis.share < kInOnePlace && !(beside_others(axis.share, entries, size, m.rms_a) > kBesideOthers)) continue;
    return fmt::format("index {} of axis {} has {:.0f} % of the squared error, and rounding favours no place",
                       axis.first, axis.axis, 100 * axis.share);
  }
  return {};
}

// What came in, in the terms that a result is judged by.
struct Arrived {
  double whole = 0;    // relative error
  double factor = 0;   // of it, in proportion to the values
  double factors = 0;  // of all that came in together
  double mean = 0;     // of it, of one sign, beside the root mean square
  double share = 0;    // of it, in one entry of an axis
};
Arrived arrived(const Side& a, const Side& b, std::span<const TensorDiff* const> inputs) {
  Arrived all;
  for (const TensorDiff* input : inputs) {
    const Measures* m = input->measures.get();
    if (m == nullptr || !(m->rms_a > 0) || !(m->rmse > 0)) continue;
    all.whole = std::max(all.whole, m->rmse / m->rms_a);
    const double factor = std::abs(along_values(*m)) * m->rmse / m->rms_a;
    all.factor = std::max(all.factor, factor);
    all.factors += factor;
    const TensorRecord of_a = a.tensor(input->match.a), of_b = b.tensor(input->match.b);
    if (has_statistics(input->match, of_a, of_b))
      all.mean = std::max(all.mean, std::abs(of_b.fingerprint.stats.mean - of_a.fingerprint.stats.mean) / m->rms_a);
    for (const AxisWorst& axis : input->axes) all.share = std::max(all.share, axis.share);
  }
  return all;
}

}  // namespace

bool is_in_proportion(const Side& a, const Side& b, const TensorDiff& tensor,
                      std::span<const TensorDiff* const> made_of) {
  if (!is_measured(tensor) || !(tensor.measures->rms_a > 0) || !(tensor.measures->rmse > 0)) return false;
  const double least = kAmplified * arrived(a, b, made_of).factor;
  return !by_proportion(*tensor.measures, least, kPreferenceOfCall).empty();
}

double along_values(const Measures& m) {
  return (m.rms_b * m.rms_b - m.rms_a * m.rms_a - m.rmse * m.rmse) / (2 * m.rms_a * m.rmse);
}

bool sums_are_made_in(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kC64 || dtype == DType::kC128;
}

namespace {

// The mean of many values is small beside them, and the errors of those beside it are not.
bool may_have_cancelled(const Measures& made, const Measures& of) {
  constexpr uint64_t kFewer = 4;
  constexpr double kSmaller = 8;
  return made.count * kFewer <= of.count && made.rms_a * kSmaller < of.rms_a;
}

}  // namespace

std::optional<double> growth_of(const Side& a, const Side& b, const TensorDiff& tensor,
                                std::span<const TensorDiff* const> made_of, bool by_code) {
  if (!is_measured(tensor) || !(tensor.measures->rms_a > 0)) return std::nullopt;
  const DType dtype = coarser(dtype_of(a.tensor(tensor.match.a)), dtype_of(b.tensor(tensor.match.b)));
  const double step = epsilon_at(dtype, tensor.measures->rms_a);
  if (step == 0 || sums_are_made_in(dtype)) return std::nullopt;
  double came = 0;
  for (const TensorDiff* each : made_of) {
    if (each->verdict == Verdict::kIdentical) continue;
    if (each->measures->rms_a > 0) came = std::max(came, each->measures->rmse / each->measures->rms_a);
    // Where several errors are in proportion to their values, they add up.
    if (by_code && std::abs(along_values(*each->measures)) > kPreference) return std::nullopt;
    if (may_have_cancelled(*tensor.measures, *each->measures)) return std::nullopt;
  }
  const double rounding = dtype == DType::kF16 ? kRoundingOfF16Sums : kOneRounding;
  if (by_code && came < std::max(rounding, kRoundingsOfCode) * step) return std::nullopt;
  return tensor.measures->rmse / tensor.measures->rms_a / std::hypot(came, rounding * step);
}

Unexplained beyond_usual_growth(double growth, const UsualGrowth& usual) {
  const bool has_others = usual.calls >= kFewestOthers;
  if (!(growth > (has_others ? kStandsOut * std::max(usual.most, 1.0) : kStandsOutAlone))) return {};
  const bool far = has_others && growth > kStandsFarOut * usual.most && growth > kStandsFarOut;
  const std::string others =
      has_others ? fmt::format(", that of the {} other calls of the kind {:.2g} times at most", usual.calls, usual.most)
                 : std::string(", and there are no other calls of the kind to compare with");
  return {far ? Verdict::kDiverged : Verdict::kInconclusive,
          fmt::format("its error is {:.2g} times what it was made of and one rounding explain{}", growth, others)};
}

Unexplained beyond_what_came_in(const Side& a, const Side& b, const TensorDiff& tensor, CallSize size, DType rounded_to,
                                std::span<const TensorDiff* const> made_of) {
  const TensorRecord of_a = a.tensor(tensor.match.a), of_b = b.tensor(tensor.match.b);
  const Measures& m = *tensor.measures;
  const DType dtype = rounded_to;
  const double step = epsilon_at(dtype, m.rms_a);
  if (step == 0 || !(m.rms_a > 0) || !(m.rmse > 0)) return {};
  const auto diverged = [](std::string reason) { return Unexplained{Verdict::kDiverged, std::move(reason)}; };
  const Arrived came = arrived(a, b, made_of);
  const double least = step * (sums_are_made_in(dtype) ? kStepsOfSums : kStepsOfPreference);
  const bool by_code = size == CallSize::kCode;
  const double factor = kAmplified * (by_code ? came.factors : came.factor);
  if (std::string reason = by_proportion(m, std::max(least, factor), by_code ? kPreference : kPreferenceOfCall);
      !reason.empty())
    return diverged(std::move(reason));
  if (has_statistics(tensor.match, of_a, of_b))
    if (std::string reason = by_bias(m, of_b.fingerprint.stats.mean - of_a.fingerprint.stats.mean,
                                     std::max(least, kAmplified * came.mean));
        !reason.empty())
      return diverged(std::move(reason));
  if (came.share < kInOnePlace / 2)
    if (std::string reason =
            by_place(a, tensor, step, sums_are_made_in(dtype) ? kStepsOfSumsInOnePlace : kStepsInOnePlace);
        !reason.empty())
      return diverged(std::move(reason));
  const double whole = m.rmse / m.rms_a;
  const double own = sums_are_made_in(dtype) ? default_tolerance(dtype).relative : bound_in(dtype, size).whole * step;
  const double explained = std::hypot(kGrown * came.whole, own);
  if (whole > explained)
    return diverged(
        fmt::format("its error as a whole is {:.2g} of its size; what came in, {:.2g}, and rounding explain {:.2g}",
                    whole, came.whole, explained));
  return {};
}

std::string beyond_rounding(const Side& a, const Side& b, const TensorDiff& tensor, CallSize size, DType rounded_to) {
  const TensorRecord of_a = a.tensor(tensor.match.a), of_b = b.tensor(tensor.match.b);
  const Measures& m = *tensor.measures;
  const DType dtype = rounded_to;
  const double step = epsilon_at(dtype, m.rms_a);
  if (step == 0 || !(m.rms_a > 0) || !(m.rmse > 0)) return {};
  const bool sums = sums_are_made_in(dtype);
  if (has_statistics(tensor.match, of_a, of_b) && has_same_values(of_a.fingerprint.stats, of_b.fingerprint.stats) &&
      m.unequal > 1)
    return "the same values stand in another order, or have other signs";
  const double least = step * (sums ? kStepsOfSums : kStepsOfPreference);
  if (std::string reason = by_proportion(m, least); !reason.empty()) return reason;
  if (has_statistics(tensor.match, of_a, of_b))
    if (std::string reason = by_bias(m, of_b.fingerprint.stats.mean - of_a.fingerprint.stats.mean, least);
        !reason.empty())
      return reason;
  if (has_statistics(tensor.match, of_a, of_b))
    if (std::string reason = by_zeros(of_a.fingerprint.stats, of_b.fingerprint.stats); !reason.empty()) return reason;
  if (std::string reason = by_place(a, tensor, step, sums ? kStepsOfSumsInOnePlace : kStepsInOnePlace); !reason.empty())
    return reason;
  if (tensor.evidence == Evidence::kSketch)
    if (std::string reason = by_few(of_a, of_b, m, sums ? kStepsOfSums * step : step, bound_in(dtype, size));
        !reason.empty())
      return reason;
  if (sums) return by_tolerance(m, dtype);
  if (tensor.evidence == Evidence::kSketch) {
    // As little as the estimate may stand for: what it proves, the values prove too.
    Measures least_error = m;
    least_error.rmse *= std::max(0.0, 1 - sketch_spread(of_a.fingerprint.sketch, of_b.fingerprint.sketch));
    return by_whole(least_error, step, bound_in(dtype, size));
  }
  if (size == CallSize::kOneRounding)
    if (std::string reason = by_distance(m, dtype); !reason.empty()) return reason;
  return by_size(m, step, bound_in(dtype, size));
}

}  // namespace ttap
