#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "analyze/diff/measures.h"
#include "core/pattern.h"
#include "ttap/compare.h"
#include "ttap/fingerprint.h"
#include "ttap/result.h"

// What counts as close enough, for which tensor, and who said so.
namespace ttap {

// One comparison of one measure with a number: `cos>=0.999`, `max_abs<1e-3`, `ulp<=4`, `sqnr>40`. Several joined by
// "," must all hold.
class Predicate {
 public:
  static Result<Predicate> parse(std::string_view text);
  bool holds(const Measures& measures) const;  // a measure that is NaN or absent satisfies nothing
  const std::string& text() const { return text_; }

 private:
  struct Term {
    std::string measure;
    std::string compare;
    double number;
  };
  std::string text_;
  std::vector<Term> terms_;
};

// The tolerance that a dtype gets when nobody names one: rtol, atol as a share of the root mean square of the reference
// tensor, and the most that the error as a whole may be beside it. The first two catch one bad element, the last an
// error that is small everywhere. Integers and bool: exact.
struct DefaultTolerance {
  double rtol = 0;
  double atol_per_rms = 0;
  double relative = 0;
};
DefaultTolerance default_tolerance(DType coarser);

struct ToleranceOptions {
  std::optional<double> rtol = {};
  std::optional<double> atol = {};
  bool equal_nan = false;
  std::vector<std::string> rules = {};  // --tol 'REGEX=rtol,atol' or 'REGEX=PREDICATE'; the first that matches counts
  double noise_factor = 4;              // the tolerance is this many times the noise measured
};

// How one tensor is judged.
struct Judge {
  Tolerance tolerance = {};
  double most_relative = std::numeric_limits<double>::infinity();  // rmse / rms of the reference; of the defaults only
  std::optional<Predicate> predicate = {};                         // in place of the tolerance
  std::string source = {};  // "f32 default", "--rtol", "--tol 'REGEX'", "4 × noise"
};

class Tolerances {
 public:
  static Result<Tolerances> create(const ToleranceOptions& options);

  // `rms_a` of the reference tensor (NaN: taken as 0); `noise`: the reference against itself, where it was measured.
  Judge judge(std::string_view key, DType a, DType b, double rms_a, const Measures* noise = nullptr) const;
  // Rules of --tol that matched no key so far, for a warning.
  std::vector<std::string> unused() const;

 private:
  struct Rule {
    Pattern pattern;
    std::variant<Tolerance, Predicate> judge;
    std::string text;
    mutable bool used = false;
  };
  ToleranceOptions options_;
  std::vector<Rule> rules_;
};

}  // namespace ttap
