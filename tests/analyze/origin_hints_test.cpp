#include "analyze/check/origin_hints.h"

#include <gtest/gtest.h>

#include <limits>

#include "not_finite.h"
#include "ttap/tensor_view.h"

namespace ttap {
namespace {

Stats stats_of_values(const std::vector<float>& values) {
  const int64_t shape[] = {static_cast<int64_t>(values.size())};
  return fingerprint({values.data(), DType::kF32, shape, {}}).stats;
}

// The hints for a call with these arguments, one on a line, as if its result were of `dtype`.
std::string hints(std::string_view op, const std::vector<std::vector<float>>& arguments,
                  const std::vector<float>& result, DType dtype = DType::kF32, std::optional<double> literal = {}) {
  static constexpr std::string_view kPaths[] = {"/0", "/1", "/2"};
  CallFacts call{.op = std::string(op),
                 .arguments = {},
                 .result = {"", dtype, stats_of_values(result)},
                 .second_literal = literal};
  for (size_t i = 0; i < arguments.size(); ++i)
    call.arguments.push_back({kPaths[i], DType::kF32, stats_of_values(arguments[i])});
  std::string lines;
  for (const std::string& hint : origin_hints(call)) lines += (lines.empty() ? "" : "\n") + hint;
  return lines;
}

TEST(OriginHints, LogarithmsOfZeroAndBelow) {
  EXPECT_EQ(hints("aten::log", {{0, 0, 0, 1}}, {-kInf, -kInf, -kInf, 0}),
            "argument /0 has 3 zeros, and the logarithm of 0 is -Inf");
  EXPECT_EQ(hints("aten::log2_", {{-1, 1}}, {kNan, 0}),
            "argument /0 goes down to -1, and the logarithm of a negative number is NaN");
  EXPECT_EQ(hints("aten::log", {{-1, 0}}, {kNan, -kInf}),
            "argument /0 goes down to -1, and the logarithm of a negative number is NaN\n"
            "argument /0 has 1 zero, and the logarithm of 0 is -Inf");
  EXPECT_EQ(hints("aten::log1p", {{-1, 1}}, {-kInf, 0.7F}), "argument /0 goes down to -1, where log1p is -Inf");
}

TEST(OriginHints, DivisionByZero) {
  EXPECT_EQ(hints("aten::div.Tensor", {{1, 2}, {0, 1}}, {kInf, 2}), "it divides by argument /1, which has 1 zero");
  EXPECT_EQ(hints("aten::div.Tensor", {{0, 2}, {1, 1}}, {kNan, 2}), "");
  EXPECT_EQ(hints("aten::reciprocal", {{0, 1}}, {kInf, 1}), "argument /0 has 1 zero, and 1 / 0 is Inf");
}

TEST(OriginHints, RootsAndPowers) {
  EXPECT_EQ(hints("aten::sqrt", {{-2, 1}}, {kNan, 1}),
            "argument /0 goes down to -2, and the root of a negative number is NaN");
  EXPECT_EQ(hints("aten::rsqrt", {{0, 1}}, {kInf, 1}), "argument /0 has 1 zero, and 1 / 0 is Inf");
  EXPECT_EQ(hints("aten::pow.Tensor_Scalar", {{-2, 1}}, {kNan, 1}, DType::kF32, 0.5),
            "argument /0 goes down to -2, and a power that is no whole number makes NaN of a negative one");
  EXPECT_EQ(hints("aten::pow.Tensor_Scalar", {{-2, 0}}, {kNan, 1}, DType::kF32, 2), "");
  EXPECT_EQ(hints("aten::pow.Tensor_Scalar", {{0, 1}}, {kInf, 1}, DType::kF32, -1),
            "argument /0 has 1 zero, and a negative power of 0 is Inf");
}

TEST(OriginHints, ExponentialsThatTheFormatCannotHold) {
  EXPECT_EQ(hints("aten::exp", {{100, 1}}, {kInf, 2.7F}),
            "argument /0 goes up to 100: e to that is more than f32 can hold (3.4028e+38)");
  // The same argument may be small for one format and large for another.
  EXPECT_EQ(hints("aten::exp", {{12, 1}}, {kInf, 2.7F}, DType::kF16),
            "argument /0 goes up to 12: e to that is more than f16 can hold (65504)");
  EXPECT_EQ(hints("aten::exp", {{12, 1}}, {kInf, 2.7F}, DType::kBF16), "");
}

TEST(OriginHints, ValuesThatDoNotFitTheNewFormat) {
  EXPECT_EQ(hints("aten::_to_copy", {{70000, 1}}, {kInf, 1}, DType::kF16),
            "argument /0 has magnitudes up to 70000: that is more than f16 can hold (65504)");
  EXPECT_EQ(hints("aten::_to_copy", {{500, 1}}, {kNan, 1}, DType::kF8E4M3FN),
            "argument /0 has magnitudes up to 500: that is more than f8_e4m3fn can hold (448)");
}

TEST(OriginHints, OverflowOfWhateverOp) {
  EXPECT_EQ(hints("aten::mm", {{300, 1}, {300, 1}}, {kInf, 60000}, DType::kF16),
            "an overflow: the finite results go up to 60000, and f16 ends at 65504");
  EXPECT_EQ(hints("aten::mul.Tensor", {{300, 1}, {300, 1}}, {kInf, 1}, DType::kF16),
            "an overflow: argument /0 has magnitudes up to 300, and f16 ends at 65504");
  EXPECT_EQ(hints("aten::mul.Tensor", {{3, 1}, {3, 1}}, {kInf, 1}, DType::kF16), "");
}

TEST(OriginHints, NanOutOfInf) {
  EXPECT_EQ(hints("aten::_softmax", {{-kInf, -kInf}}, {kNan, kNan}),
            "argument /0 has 2 -Inf: a row that is -Inf throughout becomes NaN (everything masked)");
  EXPECT_EQ(hints("aten::sub.Tensor", {{kInf}, {kInf}}, {kNan}), "Inf less Inf is NaN");
  EXPECT_EQ(hints("aten::mul.Tensor", {{kInf}, {0}}, {kNan}), "0 times Inf is NaN");
}

TEST(OriginHints, VarianceOfOneValue) {
  EXPECT_EQ(hints("aten::var.correction", {{1, 2}}, {kNan, kNan}),
            "it takes the variance of one value at a time, which is NaN unless correction=0");
  EXPECT_EQ(hints("aten::var.correction", {{1, 2}}, {kNan}), "");
}

TEST(OriginHints, SayNothingWhereTheStatisticsDoNotTell) {
  EXPECT_EQ(hints("aten::log", {{1, 2}}, {kNan, 1}), "");
  EXPECT_EQ(hints("mine::op", {{1, 2}}, {kNan, 1}), "");
  EXPECT_EQ(hints("aten::log", {}, {kNan, 1}), "");
}

}  // namespace
}  // namespace ttap
