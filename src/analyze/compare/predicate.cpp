#include "analyze/compare/predicate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analyze/compare/parse_number.h"

namespace ttap {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

double steps(const std::optional<uint64_t>& ulp) { return ulp ? static_cast<double>(*ulp) : kNothing; }

struct MeasureName {
  std::string_view name;
  std::string_view alias;
  double (*of)(const Measures&);
};

double nan_mismatches(const Measures& m) { return static_cast<double>(m.nan_mismatches); }
double inf_mismatches(const Measures& m) { return static_cast<double>(m.inf_mismatches); }

constexpr MeasureName kMeasures[] = {
    {"max_abs", "", [](const Measures& m) { return m.max_abs; }},
    {"mean_abs", "", [](const Measures& m) { return m.mean_abs; }},
    {"max_rel", "", [](const Measures& m) { return m.max_rel; }},
    {"rmse", "", [](const Measures& m) { return m.rmse; }},
    {"cos", "cosine", [](const Measures& m) { return m.cosine; }},
    {"sqnr", "sqnr_db", [](const Measures& m) { return m.sqnr_db; }},
    {"ulp", "max_ulp", [](const Measures& m) { return steps(m.max_ulp); }},
    {"p99_ulp", "", [](const Measures& m) { return steps(m.p99_ulp); }},
    {"outside", "",
     [](const Measures& m) { return m.count ? static_cast<double>(m.outside) / static_cast<double>(m.count) : 0; }},
    {"nan", "nan_mismatches", nan_mismatches},
    {"inf", "inf_mismatches", inf_mismatches},
};

std::string all_measures() {
  std::vector<std::string_view> names;
  for (const MeasureName& measure : kMeasures) names.push_back(measure.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Error bad(std::string_view text, std::string_view why) {
  return Error{.code = ErrorCode::kInvalidArgument,
               .message = fmt::format("'{}' is not a predicate: {}", text, why),
               .hint = fmt::format("write a measure, one of < <= > >= == != and a number, for example cos>=0.999 or "
                                   "max_abs<1e-3,nan==0; the measures are {}",
                                   all_measures())};
}

}  // namespace

Result<Predicate::Term> Predicate::parse_term(std::string_view text) {
  const size_t at = text.find_first_of("<>=!");
  if (at == std::string_view::npos) return bad(text, "there is no comparison in it");
  const bool or_equal = text.substr(at + 1).starts_with('=');
  Term term{};
  switch (text[at]) {
    case '<': term.compare = or_equal ? Compare::kLessEqual : Compare::kLess; break;
    case '>': term.compare = or_equal ? Compare::kGreaterEqual : Compare::kGreater; break;
    default:
      if (!or_equal) return bad(text, fmt::format("'{}' is no comparison", text[at]));
      term.compare = text[at] == '=' ? Compare::kEqual : Compare::kNotEqual;
  }
  const std::string_view name = trimmed(text.substr(0, at));
  const auto* measure = std::ranges::find_if(
      kMeasures, [&](const MeasureName& m) { return !name.empty() && (m.name == name || m.alias == name); });
  if (measure == std::end(kMeasures)) return bad(text, fmt::format("there is no measure '{}'", name));
  term.measure = measure->of;
  const std::string_view number = trimmed(text.substr(at + (or_equal ? 2 : 1)));
  const auto parsed = parse_number(number);
  if (!parsed) return bad(text, fmt::format("'{}' is not a number", number));
  term.number = *parsed;
  return term;
}

Result<Predicate> Predicate::parse(std::string_view text) {
  Predicate predicate;
  predicate.text_ = trimmed(text);
  std::string_view rest = predicate.text_;
  while (true) {
    const size_t comma = rest.find(',');
    TTAP_ASSIGN(const Term term, parse_term(trimmed(rest.substr(0, comma))));
    predicate.terms_.push_back(term);
    predicate.judges_nan_ |= term.measure == nan_mismatches;
    predicate.judges_inf_ |= term.measure == inf_mismatches;
    if (comma == std::string_view::npos) return predicate;
    rest.remove_prefix(comma + 1);
  }
}

bool Predicate::holds(const Measures& measures) const {
  return std::ranges::all_of(terms_, [&](const Term& term) {
    const double value = term.measure(measures);
    if (std::isnan(value)) return false;
    switch (term.compare) {
      case Compare::kLess: return value < term.number;
      case Compare::kLessEqual: return value <= term.number;
      case Compare::kGreater: return value > term.number;
      case Compare::kGreaterEqual: return value >= term.number;
      case Compare::kEqual: return value == term.number;
      case Compare::kNotEqual: return value != term.number;
    }
    return false;
  });
}

}  // namespace ttap
