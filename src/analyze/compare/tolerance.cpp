#include "analyze/compare/tolerance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyze/compare/parse_number.h"

namespace ttap {
namespace {

struct DTypeTolerance {
  DType dtype;
  DefaultTolerance by_default;
  double epsilon;  // from 1 to the next value
};

// The defaults, all in one place (docs/measures.md repeats them and says how they were found). What is not listed is
// exact.
constexpr DTypeTolerance kTable[] = {
    {DType::kF64, {.rtol = 4e-13, .atol_per_rms = 4e-13, .relative = 4e-14}, 0x1p-52},
    {DType::kF32, {.rtol = 2e-4, .atol_per_rms = 2e-4, .relative = 2e-5}, 0x1p-23},
    {DType::kF16, {.rtol = 0.07, .atol_per_rms = 0.07, .relative = 0.006}, 0x1p-10},
    {DType::kBF16, {.rtol = 0.5, .atol_per_rms = 0.5, .relative = 0.04}, 0x1p-7},
    {DType::kF8E4M3FN, {.rtol = 0.6, .atol_per_rms = 0.6, .relative = 0.3}, 0x1p-3},
    {DType::kF8E4M3FNUZ, {.rtol = 0.6, .atol_per_rms = 0.6, .relative = 0.3}, 0x1p-3},
    {DType::kF8E5M2, {.rtol = 0.8, .atol_per_rms = 0.8, .relative = 0.5}, 0x1p-2},
    {DType::kF8E5M2FNUZ, {.rtol = 0.8, .atol_per_rms = 0.8, .relative = 0.5}, 0x1p-2},
    {DType::kF8E8M0FNU, {.rtol = 1, .atol_per_rms = 1, .relative = 0.5}, 1},
    {DType::kF4E2M1FNx2, {.rtol = 0.8, .atol_per_rms = 0.8, .relative = 0.5}, 0x1p-1},
};

// No more than this: two tensors that are nothing but rounding have a relative error of √2.
constexpr double kNothingLeft = 2;

DType part_of(DType dtype) {
  if (dtype == DType::kC64) return DType::kF32;
  if (dtype == DType::kC128) return DType::kF64;
  return dtype;
}

const DTypeTolerance* entry_of(DType dtype) {
  for (const DTypeTolerance& entry : kTable)
    if (entry.dtype == part_of(dtype)) return &entry;
  return nullptr;
}

bool is_exact(DType dtype) { return entry_of(dtype) == nullptr; }

// Infinity would let everything pass, and its product with 0 is not a number.
std::optional<double> parse_bound(std::string_view text) {
  const auto number = parse_number(trimmed(text));
  if (!number || !std::isfinite(*number) || *number < 0) return std::nullopt;
  return number;
}

std::optional<Tolerance> parse_tolerance(std::string_view text) {
  const size_t comma = text.find(',');
  if (comma == std::string_view::npos) return std::nullopt;
  const auto rtol = parse_bound(text.substr(0, comma));
  const auto atol = parse_bound(text.substr(comma + 1));
  if (!rtol || !atol) return std::nullopt;
  return Tolerance{.rtol = *rtol, .atol = *atol};
}

// Not the '=' of a comparison.
bool may_split(std::string_view text, size_t equals) {
  const bool ends_comparison = equals > 0 && std::string_view("<>=!").find(text[equals - 1]) != std::string_view::npos;
  return text[equals] == '=' && !ends_comparison && !text.substr(equals + 1).starts_with('=');
}

Status check_bound(const std::optional<double>& bound, std::string_view option) {
  if (!bound || (std::isfinite(*bound) && *bound >= 0)) return {};
  return Error{.code = ErrorCode::kInvalidArgument,
               .message = fmt::format("{} is {}", option, *bound),
               .hint = "a tolerance is a finite number from 0, for example 1e-3"};
}

}  // namespace

DefaultTolerance default_tolerance(DType coarser) {
  const DTypeTolerance* entry = entry_of(coarser);
  return entry != nullptr ? entry->by_default : DefaultTolerance{};
}

bool is_masked(double value) {
  constexpr double kMasked = -9984;  // −1e4 as bf16 has it
  return value <= kMasked;
}

double epsilon_of(DType dtype) {
  const DTypeTolerance* entry = entry_of(dtype);
  return entry != nullptr ? entry->epsilon : 0;
}

double epsilon_at(DType dtype, double size) {
  constexpr double kSmallestF16 = 0x1p-24;  // that of the others is smaller than any value of a model
  const double epsilon = epsilon_of(dtype);
  return dtype == DType::kF16 && size > 0 ? std::max(epsilon, kSmallestF16 / size) : epsilon;
}

bool Judge::accepts(const Measures& measures) const {
  if (!predicate)
    return measures.outside == 0 && !(measures.rmse > most_relative * (std::isnan(scale) ? measures.rms_a : scale));
  const bool nan_agrees = measures.nan_mismatches == 0 || predicate->judges_nan();
  const bool inf_agrees = measures.inf_mismatches == 0 || predicate->judges_inf();
  return nan_agrees && inf_agrees && predicate->holds(measures);
}

// The pattern may hold '=' and ',' itself: the last '=' with something that can be read behind it parts the two.
Result<Tolerances::Rule> Tolerances::parse_rule(std::string_view text) {
  std::string reason = "there is no '=' between a pattern and a tolerance";
  for (size_t at = text.size(); at-- > 0;) {
    if (!may_split(text, at)) continue;
    const std::string_view right = text.substr(at + 1);
    std::optional<std::variant<Tolerance, Predicate>> judge;
    if (const auto tolerance = parse_tolerance(right)) {
      judge = *tolerance;
    } else if (auto predicate = Predicate::parse(right); predicate.ok()) {
      judge = std::move(predicate).value();
    } else if (right.find_first_of("<>") != std::string_view::npos || right.find("==") != std::string_view::npos) {
      reason = predicate.error().message + "; " + predicate.error().hint;
    } else {
      reason = fmt::format("'{}' is neither RTOL,ATOL, both finite and from 0, nor a predicate", right);
    }
    if (!judge) continue;
    auto pattern = Pattern::compile(std::string(text.substr(0, at)));
    if (pattern.ok()) return Rule{.pattern = std::move(pattern).value(), .judge = std::move(*judge)};
    reason = pattern.error().message;
    break;
  }
  return Error{.code = ErrorCode::kInvalidArgument,
               .message = fmt::format("cannot read --tol '{}': {}", text, reason),
               .hint = R"(write REGEX=RTOL,ATOL or REGEX=PREDICATE, for example --tol 'mlp\.down=1e-3,1e-5' or )"
                       "--tol 'lm_head=cos>=0.999'"};
}

Result<Tolerances> Tolerances::create(const ToleranceOptions& options) {
  Tolerances tolerances;
  TTAP_TRY(check_bound(options.rtol, "--rtol"));
  TTAP_TRY(check_bound(options.atol, "--atol"));
  if (!std::isfinite(options.noise_factor) || options.noise_factor <= 0)
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("the noise cannot be taken {} times", options.noise_factor),
                 .hint = "the factor is a finite number above 0, for example 4"};
  for (const std::string& text : options.rules) {
    TTAP_ASSIGN(Rule rule, parse_rule(text));
    tolerances.rules_.push_back(std::move(rule));
  }
  tolerances.options_ = options;
  return tolerances;
}

Judge Tolerances::by_default(DType dtype, double rms_a, const QuantTolerance* quant) const {
  const std::string exact = fmt::format("{}, exact", dtype_name(dtype));
  if (is_exact(dtype)) return {.source = exact};
  DefaultTolerance by_dtype = default_tolerance(dtype);
  const double rms = std::isfinite(rms_a) ? rms_a : 0;
  const double coarse = rms > 0 ? epsilon_at(dtype, rms) / epsilon_of(dtype) : 1;
  double atol = by_dtype.atol_per_rms * rms * coarse;
  by_dtype.relative = std::min(by_dtype.relative * coarse, std::max(by_dtype.relative, kNothingLeft));
  if (quant != nullptr) {
    by_dtype.rtol = std::max(by_dtype.rtol, quant->rtol);
    by_dtype.relative = std::max(by_dtype.relative, quant->relative);
    atol = std::max(atol, quant->atol);
  }
  Judge judge{.tolerance = {options_.rtol.value_or(by_dtype.rtol), options_.atol.value_or(atol)}};
  const std::string by_name =
      quant != nullptr ? fmt::format("{} default", quant->format) : fmt::format("{} default", dtype_name(dtype));
  if (options_.rtol && options_.atol) {
    judge.source = "--rtol, --atol";
  } else if (options_.rtol) {
    judge.source = fmt::format("--rtol, atol of the {}", by_name);
  } else if (options_.atol) {
    judge.source = fmt::format("--atol, rtol of the {}", by_name);
  } else {
    judge.source = by_name;
    judge.most_relative = by_dtype.relative;
  }
  return judge;
}

// One step of the dtype is granted always: a reference without noise asks for the last bit, and no more.
Judge Tolerances::by_noise(DType dtype, const Measures& noise) const {
  Judge judge{.source = fmt::format("{:g} × noise", options_.noise_factor)};
  if (is_exact(dtype)) {
    judge.source = fmt::format("{}, exact", dtype_name(dtype));
    if (noise.unequal > 0) judge.source += fmt::format("; {} of the noise's values differ", noise.unequal);
    return judge;
  }
  judge.tolerance.rtol = entry_of(dtype)->epsilon;
  judge.tolerance.atol = std::isfinite(noise.max_abs) ? options_.noise_factor * noise.max_abs : 0;
  if (noise.nan_mismatches > 0) judge.source += fmt::format("; {} NaN mismatches in the noise", noise.nan_mismatches);
  if (noise.inf_mismatches > 0) judge.source += fmt::format("; {} Inf mismatches in the noise", noise.inf_mismatches);
  return judge;
}

Judge Tolerances::judge(std::string_view key, DType dtype, double rms_a, const Measures* noise,
                        const QuantTolerance* quant) const {
  const auto with_nan = [this](Judge judge) {
    judge.tolerance.equal_nan = options_.equal_nan;
    return judge;
  };
  for (const Rule& rule : rules_) {
    if (!rule.pattern.found_in(key)) continue;
    rule.used->store(true, std::memory_order_relaxed);
    Judge judge = by_default(dtype, rms_a, quant);
    if (const auto* predicate = std::get_if<Predicate>(&rule.judge)) {
      judge.predicate = *predicate;
      judge.most_relative = std::numeric_limits<double>::infinity();
    } else if (is_exact(dtype)) {
      return with_nan(std::move(judge));
    } else {
      judge.tolerance = std::get<Tolerance>(rule.judge);
      judge.most_relative = std::numeric_limits<double>::infinity();
    }
    judge.source = fmt::format("--tol '{}'", rule.pattern.text());
    return with_nan(std::move(judge));
  }
  return with_nan(noise != nullptr ? by_noise(dtype, *noise) : by_default(dtype, rms_a, quant));
}

std::vector<std::string> Tolerances::unused() const {
  std::vector<std::string> unused;
  for (size_t i = 0; i < rules_.size(); ++i)
    if (!rules_[i].used->load(std::memory_order_relaxed)) unused.push_back(options_.rules[i]);
  return unused;
}

}  // namespace ttap
