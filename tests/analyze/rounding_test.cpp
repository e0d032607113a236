#include <gtest/gtest.h>

#include <tuple>

#include "alignment.h"
#include "analyze/diff/blame/cause.h"
#include "analyze/diff/judge/compare_pairs.h"
#include "op_side.h"

namespace ttap::test {
namespace {

// Two traces of an op in the backward, whose arguments differ by rounding; sizes are those of OpSide's statistics.
class RoundingOfSums : public ::testing::Test {
 protected:
  struct Sizes {
    double in_a, in_b;
  };
  // Its argument holds values of the size `terms`, 100 of which make one of the result.
  void run(const std::string& op, Sizes made, double terms = 1, ToleranceOptions options = {}) {
    for (auto& [side, off, size] : {std::tuple(&a, 0, made.in_a), std::tuple(&b, 100, made.in_b)}) {
      const auto x = side->op("aten::exp", {side->outside(1, {100, 4}, terms)}, {.bits = 2, .shape = {100, 4}});
      const auto y = side->op("aten::tanh", {x}, {.bits = 3 + off, .shape = {100, 4}, .size = terms});
      const auto z = side->op(op, {y}, {.bits = 4 + off, .shape = {4}, .size = size});
      side->op("aten::mul.Tensor", {z, side->outside(9, {4})}, {.bits = 5 + off, .shape = {4}, .size = size});
    }
    diffs.clear();
    for (const Match& match : align(a, b)) diffs.emplace_back().match = match;
    const Tolerances tolerances = Tolerances::create(options).value();
    compare_pairs({a, b, tolerances}, diffs, 1);
    // The argument was rounded by another kernel.
    for (TensorDiff& diff : diffs)
      if (key(diff) == "aten::tanh") diff.verdict = Verdict::kWithin;
    find_causes(a, b, {}, {}, diffs);
  }
  std::string key(const TensorDiff& diff) const {
    return to_string((diff.match.a != kNoTensor ? a.tensor(diff.match.a) : b.tensor(diff.match.b)).key());
  }
  const TensorDiff& at(std::string_view wanted) const {
    for (const TensorDiff& diff : diffs)
      if (key(diff) == wanted) return diff;
    ADD_FAILURE() << "no tensor " << wanted;
    return diffs.front();
  }

  OpSide a, b;
  std::vector<TensorDiff> diffs;
};

TEST_F(RoundingOfSums, WhatIsLeftOfTermsThatCancelIsHeldAgainstTheTerms) {
  run("aten::sum.dim_IntList", {1e-7, 3e-7});
  EXPECT_EQ(at("aten::sum.dim_IntList").verdict, Verdict::kWithin);
  EXPECT_EQ(at("aten::sum.dim_IntList").judge->source, "f32 default, beside what was summed");
  EXPECT_NE(at("aten::sum.dim_IntList").note.find("it is zero but for rounding"), std::string::npos);
}

TEST_F(RoundingOfSums, WhatIsMadeOfRoundingIsRounding) {
  run("aten::sum.dim_IntList", {1e-7, 3e-7});
  EXPECT_EQ(at("aten::mul.Tensor").verdict, Verdict::kWithin);
}

TEST_F(RoundingOfSums, MoreThanRoundingIsAnError) {
  run("aten::sum.dim_IntList", {1e-7, 1e-2});
  EXPECT_EQ(at("aten::sum.dim_IntList").verdict, Verdict::kDiverged);
  EXPECT_EQ(at("aten::sum.dim_IntList").cause, Cause::kIntroduced);
  EXPECT_EQ(at("aten::mul.Tensor").cause, Cause::kInherited);
}

TEST_F(RoundingOfSums, AnOperatorThatDoesNotAddIsHeldAgainstItsResult) {
  run("aten::amax", {1e-7, 3e-7});
  EXPECT_EQ(at("aten::amax").verdict, Verdict::kDiverged);
}

TEST_F(RoundingOfSums, BesideAMaskNothingIsGranted) {
  run("aten::sum.dim_IntList", {1e-7, 3e-7}, 1e9);
  EXPECT_EQ(at("aten::sum.dim_IntList").verdict, Verdict::kDiverged);
}

TEST_F(RoundingOfSums, AToleranceThatWasAskedForIsKept) {
  run("aten::sum.dim_IntList", {1e-7, 3e-7}, 1, {.rtol = 1e-4});
  EXPECT_EQ(at("aten::sum.dim_IntList").verdict, Verdict::kDiverged);
}

}  // namespace
}  // namespace ttap::test
