#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/compare/measures.h"
#include "ttap/result.h"

namespace ttap {

// One comparison of one measure with a number: `cos>=0.999`, `max_abs<1e-3`, `ulp<=4`, `sqnr>40`. Several joined by
// "," must all hold.
class Predicate {
 public:
  static Result<Predicate> parse(std::string_view text);
  bool holds(const Measures& measures) const;  // a measure that is NaN or absent satisfies nothing
  // Whether it speaks of mismatches of NaN, of infinity: what it does not speak of it does not judge.
  bool judges_nan() const { return judges_nan_; }
  bool judges_inf() const { return judges_inf_; }
  const std::string& text() const { return text_; }

 private:
  enum class Compare : uint8_t { kLess, kLessEqual, kGreater, kGreaterEqual, kEqual, kNotEqual };
  struct Term {
    double (*measure)(const Measures&);
    Compare compare;
    double number;
  };
  static Result<Term> parse_term(std::string_view text);

  std::string text_;
  std::vector<Term> terms_;
  bool judges_nan_ = false;
  bool judges_inf_ = false;
};

}  // namespace ttap
