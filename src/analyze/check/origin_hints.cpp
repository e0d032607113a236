#include "analyze/check/origin_hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analyze/ops/op_facts.h"

namespace ttap {
namespace {

// What is the matter with an argument.
enum class Trouble : uint8_t {
  kNegative,           // some values are below 0
  kZeros,              // some are 0
  kBelowMinusOne,      // some are below -1
  kMinusOne,           // the smallest is -1
  kBeyondOne,          // some magnitudes are above 1
  kOne,                // the largest magnitude is 1
  kBelowOne,           // some are below 1
  kExpOverflows,       // e to the largest is more than the result's format holds
  kDoesNotFit,         // the largest magnitude is more than the result's format holds
  kNegativeInf,        // -Inf stands in it
  kPositiveInf,        // +Inf
  kOneValuePerResult,  // it has as many values as the result
  kEmpty,              // it has no values
  kAny,
};

enum class Makes : uint8_t { kNan, kInf, kEither };

struct Rule {
  std::string_view ops;  // between blanks
  uint8_t argument;      // its position
  Trouble trouble;
  Makes makes;            // what must stand in the result for the rule to say anything
  std::string_view says;  // {path} the argument, {amount} how much of the trouble there is
};

constexpr std::string_view kExponentials = " exp expm1 sinh cosh ";
constexpr std::string_view kQuotients = " div divide true_divide remainder fmod floor_divide ";

constexpr Rule kRules[] = {
    {" log log2 log10 ", 0, Trouble::kNegative, Makes::kNan,
     "argument {path} goes down to {amount}, and the logarithm of a negative number is NaN"},
    {" log log2 log10 ", 0, Trouble::kZeros, Makes::kInf,
     "argument {path} has {amount}, and the logarithm of 0 is -Inf"},
    {" log1p ", 0, Trouble::kBelowMinusOne, Makes::kNan,
     "argument {path} goes down to {amount}; log1p is NaN below -1"},
    {" log1p ", 0, Trouble::kMinusOne, Makes::kInf, "argument {path} goes down to -1, where log1p is -Inf"},
    {" sqrt rsqrt ", 0, Trouble::kNegative, Makes::kNan,
     "argument {path} goes down to {amount}, and the root of a negative number is NaN"},
    {" rsqrt reciprocal ", 0, Trouble::kZeros, Makes::kInf, "argument {path} has {amount}, and 1 / 0 is Inf"},
    {kQuotients, 1, Trouble::kZeros, Makes::kEither, "it divides by argument {path}, which has {amount}"},
    {" addcdiv ", 2, Trouble::kZeros, Makes::kEither, "it divides by argument {path}, which has {amount}"},
    {kExponentials, 0, Trouble::kExpOverflows, Makes::kInf, "argument {path} goes up to {amount}: e to that {limit}"},
    {" exp2 ", 0, Trouble::kExpOverflows, Makes::kInf, "argument {path} goes up to {amount}: 2 to that {limit}"},
    {" acos asin ", 0, Trouble::kBeyondOne, Makes::kNan,
     "argument {path} has magnitudes up to {amount}; beyond 1 it is not defined"},
    {" atanh ", 0, Trouble::kBeyondOne, Makes::kNan,
     "argument {path} has magnitudes up to {amount}; beyond 1 it is not defined"},
    {" atanh ", 0, Trouble::kOne, Makes::kInf, "argument {path} has magnitudes of 1, where atanh is infinite"},
    {" acosh ", 0, Trouble::kBelowOne, Makes::kNan, "argument {path} goes down to {amount}; acosh is NaN below 1"},
    {" logit ", 0, Trouble::kNegative, Makes::kNan, "argument {path} goes down to {amount}; logit is NaN below 0"},
    {" logit ", 0, Trouble::kBeyondOne, Makes::kNan, "argument {path} goes up to {amount}; logit is NaN above 1"},
    {" logit ", 0, Trouble::kZeros, Makes::kInf, "argument {path} has {amount}, where logit is -Inf"},
    {" softmax _softmax _safe_softmax log_softmax _log_softmax ", 0, Trouble::kPositiveInf, Makes::kNan,
     "argument {path} has {amount}, of which softmax makes NaN"},
    {" softmax _softmax log_softmax _log_softmax ", 0, Trouble::kNegativeInf, Makes::kNan,
     "argument {path} has {amount}: a row that is -Inf throughout becomes NaN (everything masked)"},
    {" _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_efficient_attention "
     "_scaled_dot_product_attention_math scaled_dot_product_attention ",
     0, Trouble::kAny, Makes::kNan, "attention gives NaN for a query whose every key is masked"},
    {" mean ", 0, Trouble::kEmpty, Makes::kNan, "argument {path} is empty, and the mean of nothing is NaN"},
    {" var std var_mean std_mean ", 0, Trouble::kOneValuePerResult, Makes::kNan,
     "it takes the variance of one value at a time, which is NaN unless correction=0"},
    {" nll_loss_forward nll_loss nll_loss2d_forward ", 0, Trouble::kAny, Makes::kNan,
     "the mean over no target is NaN: every target may be the one to ignore"},
    {" _to_copy to copy ", 0, Trouble::kDoesNotFit, Makes::kEither,
     "argument {path} has magnitudes up to {amount}: that {limit}"},
    {" copy ", 1, Trouble::kDoesNotFit, Makes::kEither, "argument {path} has magnitudes up to {amount}: that {limit}"},
};

// Its share of the largest value from which on we speak of an overflow.
constexpr double kNearTheEnd = 1.0 / 16;

std::string number(double value) { return fmt::format("{:.5g}", value); }

std::string counted(uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string limit_text(DType dtype) {
  return fmt::format("is more than {} can hold ({})", dtype_name(dtype), number(largest_of(dtype).value_or(0)));
}

// How much of the trouble there is, or nothing where there is none.
std::optional<std::string> amount_of(Trouble trouble, const Stats& stats, const CallTensor& result, bool base_two) {
  const double largest = largest_of(result.dtype).value_or(INFINITY);
  const auto when = [](bool truth, std::string text) { return truth ? std::optional(std::move(text)) : std::nullopt; };
  switch (trouble) {
    case Trouble::kNegative: return when(stats.min < 0, number(stats.min));
    case Trouble::kZeros: return when(stats.zeros > 0, counted(stats.zeros, "zero", "zeros"));
    case Trouble::kBelowMinusOne: return when(stats.min < -1, number(stats.min));
    case Trouble::kMinusOne: return when(stats.min == -1, number(stats.min));
    case Trouble::kBeyondOne: return when(stats.max_abs > 1, number(stats.max_abs));
    case Trouble::kOne: return when(stats.max_abs == 1, number(stats.max_abs));
    case Trouble::kBelowOne: return when(stats.min < 1, number(stats.min));
    case Trouble::kExpOverflows:
      return when(stats.max > (base_two ? std::log2(largest) : std::log(largest)), number(stats.max));
    case Trouble::kDoesNotFit: return when(stats.max_abs > largest, number(stats.max_abs));
    case Trouble::kNegativeInf: return when(stats.neg_inf > 0, fmt::format("{} -Inf", stats.neg_inf));
    case Trouble::kPositiveInf: return when(stats.pos_inf > 0, fmt::format("{} +Inf", stats.pos_inf));
    case Trouble::kOneValuePerResult: return when(stats.count == result.stats.count, "");
    case Trouble::kEmpty: return when(stats.count == 0, "");
    case Trouble::kAny: return "";
  }
  return std::nullopt;
}

bool made(Makes makes, const Stats& result) {
  const bool inf = result.pos_inf > 0 || result.neg_inf > 0;
  return (makes != Makes::kInf && result.nan > 0) || (makes != Makes::kNan && inf);
}

bool names(std::string_view ops, std::string_view op) { return ops.find(fmt::format(" {} ", op)) != ops.npos; }

const CallTensor* argument_at(const CallFacts& call, uint8_t position) {
  const auto found = std::ranges::find(call.arguments, fmt::format("/{}", position), &CallTensor::path);
  return found == call.arguments.end() ? nullptr : &*found;
}

void add(std::vector<std::string>& hints, std::string hint) {
  if (std::ranges::find(hints, hint) == hints.end()) hints.push_back(std::move(hint));
}

// Powers need the exponent besides.
void power_hints(const CallFacts& call, std::vector<std::string>& hints) {
  const CallTensor* base = argument_at(call, 0);
  if (base == nullptr || plain_op(call.op) != "pow") return;
  const std::optional<double> exponent = call.second_literal;
  const bool fraction = !exponent || *exponent != std::floor(*exponent);
  if (call.result.stats.nan > 0 && base->stats.min < 0 && fraction)
    add(hints,
        fmt::format("argument {} goes down to {}, and a power that is no whole number makes NaN of a negative one",
                    base->path, number(base->stats.min)));
  if (made(Makes::kInf, call.result.stats) && base->stats.zeros > 0 && (!exponent || *exponent < 0))
    add(hints, fmt::format("argument {} has {}, and a negative power of 0 is Inf", base->path,
                           counted(base->stats.zeros, "zero", "zeros")));
}

// NaN out of Inf, in arithmetic.
void infinity_hints(const CallFacts& call, std::vector<std::string>& hints) {
  const std::string_view op = plain_op(call.op);
  if (call.result.stats.nan == 0) return;
  const auto has_inf = [](const CallTensor& t) { return t.stats.pos_inf > 0 || t.stats.neg_inf > 0; };
  if (std::ranges::none_of(call.arguments, has_inf)) return;
  if (names(" add sub rsub sum cumsum mean ", op)) add(hints, "Inf less Inf is NaN");
  const auto has_zeros = [](const CallTensor& t) { return t.stats.zeros > 0; };
  if (names(" mul mm bmm addmm baddbmm matmul linear convolution dot mv ", op) &&
      std::ranges::any_of(call.arguments, has_zeros))
    add(hints, "0 times Inf is NaN");
  if (names(kQuotients, op)) add(hints, "Inf / Inf is NaN");
}

// Whatever the op: the finite ones among the results come close to the end of the format.
void overflow_hint(const CallFacts& call, std::vector<std::string>& hints) {
  const std::optional<double> largest = largest_of(call.result.dtype);
  const bool no_infinity = call.result.dtype == DType::kF8E4M3FN;  // an overflow is NaN there
  if (!largest || !hints.empty() || !made(no_infinity ? Makes::kEither : Makes::kInf, call.result.stats)) return;
  if (call.result.stats.max_abs >= *largest * kNearTheEnd)
    return add(hints, fmt::format("an overflow: the finite results go up to {}, and {} ends at {}",
                                  number(call.result.stats.max_abs), dtype_name(call.result.dtype), number(*largest)));
  const auto magnitude = [](const CallTensor& t) { return std::isfinite(t.stats.max_abs) ? t.stats.max_abs : 0; };
  const auto biggest = std::ranges::max_element(call.arguments, {}, magnitude);
  if (biggest != call.arguments.end() && magnitude(*biggest) * magnitude(*biggest) >= *largest)
    add(hints, fmt::format("an overflow: argument {} has magnitudes up to {}, and {} ends at {}", biggest->path,
                           number(biggest->stats.max_abs), dtype_name(call.result.dtype), number(*largest)));
}

}  // namespace

std::optional<double> largest_of(DType dtype) {
  switch (dtype) {
    case DType::kF16: return 65504;
    case DType::kBF16: return std::ldexp(255.0, 120);
    case DType::kF32:
    case DType::kC64: return std::numeric_limits<float>::max();
    case DType::kF64:
    case DType::kC128: return std::numeric_limits<double>::max();
    case DType::kF8E4M3FN: return 448;
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ: return 57344;
    case DType::kF8E4M3FNUZ: return 240;
    case DType::kF8E8M0FNU: return std::ldexp(1.0, 127);
    case DType::kF4E2M1FNx2: return 6;
    default: return std::nullopt;
  }
}

std::vector<std::string> origin_hints(const CallFacts& call) {
  std::vector<std::string> hints;
  const std::string_view op = plain_op(call.op);
  for (const Rule& rule : kRules) {
    if (!names(rule.ops, op) || !made(rule.makes, call.result.stats)) continue;
    const CallTensor* argument = argument_at(call, rule.argument);
    if (argument == nullptr) continue;
    const auto amount = amount_of(rule.trouble, argument->stats, call.result, op == "exp2");
    if (!amount) continue;
    add(hints, fmt::format(fmt::runtime(rule.says), fmt::arg("path", argument->path), fmt::arg("amount", *amount),
                           fmt::arg("limit", limit_text(call.result.dtype))));
  }
  power_hints(call, hints);
  infinity_hints(call, hints);
  overflow_hint(call, hints);
  return hints;
}

}  // namespace ttap
