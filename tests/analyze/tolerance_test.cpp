#include "analyze/compare/tolerance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

namespace ttap {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Tolerances with(ToleranceOptions options) {
  auto tolerances = Tolerances::create(options);
  EXPECT_TRUE(tolerances.ok()) << tolerances.error().describe();
  return std::move(tolerances).value();
}

std::string error_of(ToleranceOptions options) {
  const auto tolerances = Tolerances::create(options);
  return tolerances.ok() ? "" : tolerances.error().describe();
}

TEST(DefaultTolerance, GrowsWithTheStepOfTheDtype) {
  double last = 0;
  for (DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3FN, DType::kF8E5M2}) {
    EXPECT_GT(default_tolerance(dtype).relative, last) << dtype_name(dtype);
    EXPECT_GT(default_tolerance(dtype).rtol, default_tolerance(dtype).relative) << dtype_name(dtype);
    EXPECT_GT(default_tolerance(dtype).atol_per_rms, 0) << dtype_name(dtype);
    last = default_tolerance(dtype).relative;
  }
  EXPECT_EQ(default_tolerance(DType::kC64).rtol, default_tolerance(DType::kF32).rtol);
  EXPECT_EQ(default_tolerance(DType::kC128).rtol, default_tolerance(DType::kF64).rtol);
}

TEST(DefaultTolerance, EveryFloatHasOneAndNothingElse) {
  for (DType dtype : kAllDTypes) {
    const bool floating = dtype_info(dtype).kind == DTypeKind::kFloat || dtype_info(dtype).kind == DTypeKind::kComplex;
    EXPECT_EQ(default_tolerance(dtype).rtol > 0, floating) << dtype_name(dtype);
    EXPECT_EQ(default_tolerance(dtype).atol_per_rms > 0, floating) << dtype_name(dtype);
  }
}

TEST(Tolerances, TheCoarserDtypeSetsTheDefaultAndTheReferencesSizeTheAbsolutePart) {
  const Tolerances tolerances = with({});
  const DefaultTolerance bf16 = default_tolerance(DType::kBF16);
  const Judge judge = tolerances.judge("x", DType::kBF16, 3);
  EXPECT_EQ(judge.tolerance.rtol, bf16.rtol);
  EXPECT_EQ(judge.tolerance.atol, bf16.atol_per_rms * 3);
  EXPECT_FALSE(judge.tolerance.equal_nan);
  EXPECT_FALSE(judge.predicate);
  EXPECT_EQ(judge.source, "bf16 default");
  EXPECT_EQ(tolerances.judge("x", DType::kF32, kNaN).tolerance.atol, 0);
}

TEST(Tolerances, IntegersAndBoolAreExactWhateverIsAsked) {
  Measures noise;
  noise.max_abs = 5;
  noise.unequal = 7;
  const Tolerances tolerances = with({.rtol = 1, .atol = 1, .rules = {"rule=1,1"}});
  for (const char* key : {"x", "rule"}) {
    const Judge judge = tolerances.judge(key, DType::kI64, 9);
    EXPECT_EQ(judge.tolerance.rtol, 0);
    EXPECT_EQ(judge.tolerance.atol, 0);
    EXPECT_EQ(judge.source, "i64, exact");
  }
  const Judge noisy = tolerances.judge("x", DType::kBool, 1, &noise);
  EXPECT_EQ(noisy.tolerance.atol, 0);
  EXPECT_EQ(noisy.source, "bool, exact; 7 of the noise's values differ");
}

TEST(Tolerances, OneGivenBoundLeavesTheOtherAtItsDefault) {
  const DefaultTolerance f32 = default_tolerance(DType::kF32);
  const Judge relative = with({.rtol = 0.5}).judge("x", DType::kF32, 2);
  EXPECT_EQ(relative.tolerance.rtol, 0.5);
  EXPECT_EQ(relative.tolerance.atol, 2 * f32.atol_per_rms);
  EXPECT_EQ(relative.source, "--rtol, atol of the f32 default");
  const Judge absolute = with({.atol = 0.25}).judge("x", DType::kF32, 2);
  EXPECT_EQ(absolute.tolerance.rtol, f32.rtol);
  EXPECT_EQ(absolute.tolerance.atol, 0.25);
  EXPECT_EQ(absolute.source, "--atol, rtol of the f32 default");
  EXPECT_EQ(with({.rtol = 0, .atol = 0}).judge("x", DType::kF32, 2).source, "--rtol, --atol");
}

TEST(Tolerances, TheFirstRuleThatMatchesCounts) {
  const Tolerances tolerances = with({.rules = {"mlp=1e-3,1e-5", "layers=cos>=0.999", "mlp=9,9"}, .noise_factor = 2});
  const Judge number = tolerances.judge("layers.0.mlp", DType::kF32, 1);
  EXPECT_EQ(number.tolerance.rtol, 1e-3);
  EXPECT_EQ(number.tolerance.atol, 1e-5);
  EXPECT_EQ(number.source, "--tol 'mlp'");
  const Judge predicate = tolerances.judge("layers.0.attn", DType::kF32, 1);
  ASSERT_TRUE(predicate.predicate);
  EXPECT_EQ(predicate.predicate->text(), "cos>=0.999");
  EXPECT_EQ(predicate.tolerance.rtol, default_tolerance(DType::kF32).rtol) << "`outside` needs one";
  EXPECT_EQ(tolerances.judge("embed", DType::kF32, 1).source, "f32 default");
  EXPECT_EQ(tolerances.unused(), std::vector<std::string>{"mlp=9,9"});
}

TEST(Tolerances, ARuleIsPartedAtTheLastEqualsSignThatMakesSense) {
  struct Case {
    std::string rule, pattern, judge;
  };
  for (const Case& c :
       {Case{"a=b=1,2", "a=b", "1,2"}, Case{"a,b=1e-3,0", "a,b", "0.001,0"}, Case{"a=cos>=0.9", "a", "cos>=0.9"},
        Case{"a=ulp==4", "a", "ulp==4"}, Case{"a=ulp<=4,nan!=1", "a", "ulp<=4,nan!=1"},
        Case{"(?<=x)y=1,2", "(?<=x)y", "1,2"}, Case{"(?!x=1,2)y=cos>0.5", "(?!x=1,2)y", "cos>0.5"},
        Case{"[=]=ulp<3", "[=]", "ulp<3"}, Case{"=1,2", "", "1,2"}, Case{"a= 1 , 2 ", "a", "1,2"}}) {
    // The key holds what each of the patterns looks for.
    const Judge judge = with({.rules = {c.rule}}).judge("a=b a,b = xy zy", DType::kF32, 1);
    EXPECT_EQ(judge.source, "--tol '" + c.pattern + "'") << c.rule;
    std::ostringstream numbers;
    numbers << judge.tolerance.rtol << "," << judge.tolerance.atol;
    EXPECT_EQ(judge.predicate ? judge.predicate->text() : numbers.str(), c.judge) << c.rule;
  }
}

TEST(Tolerances, BadRulesSayWhyAndShowAnExample) {
  for (const auto& [rule, said] :
       std::vector<std::pair<std::string, std::string>>{{"mlp", "there is no '='"},
                                                        {"mlp=1e-3", "'1e-3' is neither RTOL,ATOL"},
                                                        {"mlp=1,-2", "'1,-2' is neither RTOL,ATOL"},
                                                        {"mlp=1,inf", "'1,inf' is neither RTOL,ATOL"},
                                                        {"mlp=cosin>=0.9", "there is no measure 'cosin'"},
                                                        {"mlp=cos>=0.9,0.5", "'0.5' is not a predicate"},
                                                        {"ml(p=1,2", "bad pattern 'ml(p'"}}) {
    const std::string error = error_of({.rules = {rule}});
    EXPECT_NE(error.find(said), std::string::npos) << rule << " gave: " << error;
    EXPECT_NE(error.find("--tol 'lm_head=cos>=0.999'"), std::string::npos) << error;
  }
}

TEST(Tolerances, BadBoundsAreRefused) {
  EXPECT_NE(error_of({.rtol = -1}).find("--rtol is -1"), std::string::npos);
  EXPECT_NE(error_of({.atol = kNaN}).find("--atol is nan"), std::string::npos);
  EXPECT_NE(error_of({.noise_factor = 0}).find("cannot be taken 0 times"), std::string::npos);
}

TEST(Tolerances, TheNoiseSetsTheAbsolutePartAndOneStepTheRelative) {
  Measures noise;
  noise.max_abs = 0.5;
  const Tolerances tolerances = with({.rtol = 1, .equal_nan = true, .rules = {"rule=3,4"}, .noise_factor = 3});
  const Judge judge = tolerances.judge("x", DType::kBF16, 100, &noise);
  EXPECT_EQ(judge.tolerance.atol, 1.5);
  EXPECT_EQ(judge.tolerance.rtol, std::pow(2, -7));
  EXPECT_TRUE(judge.tolerance.equal_nan);
  EXPECT_EQ(judge.source, "3 × noise");
  EXPECT_EQ(tolerances.judge("rule", DType::kF32, 1, &noise).tolerance.rtol, 3) << "a rule is before it";

  noise.max_abs = kNaN;  // no finite pair
  noise.nan_mismatches = 2;
  noise.inf_mismatches = 1;
  const Judge broken = tolerances.judge("x", DType::kF32, 100, &noise);
  EXPECT_EQ(broken.tolerance.atol, 0);
  EXPECT_EQ(broken.source, "3 × noise; 2 NaN mismatches in the noise; 1 Inf mismatches in the noise");
}

TEST(Judge, AcceptsWhatNothingIsOutsideOf) {
  Measures measures;
  EXPECT_TRUE(Judge{}.accepts(measures));
  measures.outside = 1;
  EXPECT_FALSE(Judge{}.accepts(measures));
}

TEST(Judge, APredicateIsInPlaceOfTheToleranceButLetsNoNaNBy) {
  Measures measures;
  measures.cosine = 0.99;
  measures.outside = 7;
  const Judge judge{.predicate = *Predicate::parse("cos>0.9")};
  EXPECT_TRUE(judge.accepts(measures));
  measures.nan_mismatches = 1;
  EXPECT_FALSE(judge.accepts(measures));
  EXPECT_TRUE(Judge{.predicate = *Predicate::parse("cos>0.9,nan<=1")}.accepts(measures));
  measures.inf_mismatches = 1;
  EXPECT_FALSE(Judge{.predicate = *Predicate::parse("cos>0.9,nan<=1")}.accepts(measures));
}

}  // namespace
}  // namespace ttap
