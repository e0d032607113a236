#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "analyze/compare/measures.h"
#include "analyze/compare/predicate.h"
#include "core/pattern.h"
#include "ttap/compare.h"
#include "ttap/diff.h"
#include "ttap/quant.h"
#include "ttap/result.h"

// What counts as close enough, for which tensor, and who said so.
namespace ttap {

// The tolerance that a dtype gets when nobody names one: rtol, atol as a share of the root mean square of the reference
// tensor, and the most that the error as a whole may be beside it. The first two catch one bad element, the last an
// error that is small everywhere. Integers and bool: exact.
struct DefaultTolerance {
  double rtol = 0;
  double atol_per_rms = 0;
  double relative = 0;
};
DefaultTolerance default_tolerance(DType coarser);
// From 1 to the next value; 0 for integers and bool.
double epsilon_of(DType dtype);
// The same beside values of this size. Below 6e-5 those of f16 are multiples of the smallest, 6e-8: gradients in f16
// that were not scaled have few bits, or none.
double epsilon_at(DType dtype, double size);
// Whether a value means "not this one" rather than a number: −1e4 and beyond, in any dtype.
bool is_masked(double value);

// What a quantized side is granted besides: the format's own error, twice as large as it usually is. One step of its
// codes beside the value, one step near zero of the block with the largest scale, and the usual error as a whole.
struct QuantTolerance {
  double rtol = 0;
  double atol = 0;
  double relative = 0;
  std::string format = {};
};
// `max_abs`: the largest magnitude that was decoded, which tells the largest scale.
QuantTolerance quant_tolerance(const QuantFormat& format, double max_abs);
// The coarser of the two, bound by bound.
QuantTolerance coarser(const QuantTolerance& a, const QuantTolerance& b);

// How one tensor is judged.
struct Judge {
  Tolerance tolerance = {};  // what the measures count `outside` by, also beside a predicate
  // The most that rmse may be, as a share of the reference's root mean square; only the defaults ask for it.
  double most_relative = std::numeric_limits<double>::infinity();
  // What the error as a whole is held against where the reference's root mean square would not do; NaN elsewhere.
  double scale = std::numeric_limits<double>::quiet_NaN();
  std::optional<Predicate> predicate = {};  // in place of the tolerance
  std::string source = {};                  // "f32 default", "--rtol", "--tol 'REGEX'", "4 × noise"

  // Whether a pair measured with `tolerance` is close enough. A predicate that does not speak of NaN accepts no
  // mismatch of NaN, and so with infinity.
  bool accepts(const Measures& measures) const;
};

class Tolerances {
 public:
  static Result<Tolerances> create(const ToleranceOptions& options);

  // For a pair of this dtype, the coarser of the two. A rule of --tol before the noise, the noise before --rtol and
  // --atol, those before the default of the dtype; but integers are exact to all but a predicate. `rms_a` of the
  // reference tensor (NaN: taken as 0); `noise`: the reference against itself, where it was measured. May be called
  // from several threads. `quant`: where a side is quantized, what the default is at least.
  Judge judge(std::string_view key, DType dtype, double rms_a, const Measures* noise = nullptr,
              const QuantTolerance* quant = nullptr) const;
  // Rules of --tol that matched no key so far, for a warning.
  std::vector<std::string> unused() const;

 private:
  struct Rule {
    Pattern pattern;
    std::variant<Tolerance, Predicate> judge;
    std::unique_ptr<std::atomic<bool>> used = std::make_unique<std::atomic<bool>>(false);
  };
  static Result<Rule> parse_rule(std::string_view text);
  Judge by_default(DType coarser, double rms_a, const QuantTolerance* quant) const;
  Judge by_noise(DType coarser, const Measures& noise) const;

  ToleranceOptions options_;
  std::vector<Rule> rules_;
};

}  // namespace ttap
