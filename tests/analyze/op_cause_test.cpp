#include <gtest/gtest.h>

#include <tuple>

#include "alignment.h"
#include "analyze/diff/blame/cause.h"
#include "analyze/diff/judge/compare_pairs.h"
#include "op_side.h"

namespace ttap::test {
namespace {

// Two traces compared: what was said of each tensor that both have, in the order of execution.
class OpCause : public ::testing::Test {
 protected:
  void compare(bool strict = false) {
    diffs.clear();
    for (const Match& match : align(a, b, {.nearness = !strict})) diffs.emplace_back().match = match;
    const Tolerances tolerances = Tolerances::create({}).value();
    compare_pairs({a, b, tolerances}, diffs, 1);
    find_causes(a, b, {}, {.strict = strict}, diffs);
  }
  const TensorDiff& at(std::string_view key) const {
    for (const TensorDiff& diff : diffs)
      if (diff.match.a != kNoTensor && to_string(a.tensor(diff.match.a).key()) == key) return diff;
    ADD_FAILURE() << "no tensor " << key;
    return diffs.front();
  }
  Cause cause(std::string_view key) const { return at(key).cause; }
  Verdict verdict(std::string_view key) const { return at(key).verdict; }
  // The first that introduced an error.
  std::string first() const {
    for (const TensorDiff& diff : diffs)
      if (diff.cause == Cause::kIntroduced) return key(diff);
    return "nobody";
  }
  std::string key(const TensorDiff& diff) const {
    return to_string((diff.match.a != kNoTensor ? a.tensor(diff.match.a) : b.tensor(diff.match.b)).key());
  }

  OpSide a, b;
  std::vector<TensorDiff> diffs;
};

TEST_F(OpCause, TheReplacedOperatorIsTheFirstDivergence) {
  for (auto& [side, wrong, bits, size] : {std::tuple(&a, "aten::cos", 30, 1.0), std::tuple(&b, "aten::sin", 40, 2.0)}) {
    const auto x = side->outside(1);
    const auto y = side->op("aten::relu", {x}, {.bits = 20});
    const auto z = side->op(wrong, {x}, {.bits = bits, .size = size});
    side->op("aten::add.Tensor", {y, z}, {.bits = bits + 1, .size = size});
  }
  compare();
  EXPECT_EQ(first(), "aten::cos");
  EXPECT_EQ(verdict("aten::cos"), Verdict::kDiverged);
  EXPECT_EQ(at("aten::cos").reason, "its input agrees bit for bit");
  EXPECT_EQ(cause("aten::add.Tensor"), Cause::kInherited);
  EXPECT_EQ(&diffs[at("aten::add.Tensor").source], &at("aten::cos"));
}

TEST_F(OpCause, OfADiamondOnlyTheBranchThatPartedIsFollowed) {
  for (auto& [side, off] : {std::pair(&a, 0), std::pair(&b, 100)}) {
    const auto x = side->op("aten::relu", {side->outside(1)}, {.bits = 10});
    const auto left = side->op("aten::exp", {x}, {.bits = 11});
    const auto right = side->op("aten::log", {x}, {.bits = 12 + off, .size = 1.0 + off});
    const auto still = side->op("aten::neg", {left}, {.bits = 13 + off, .size = 1.0 + off});
    side->op("aten::add", {left, right}, {.bits = 14 + off, .size = 1.0 + off});
    side->op("aten::sub", {still, left}, {.bits = 15 + off, .size = 1.0 + off});
  }
  compare();
  EXPECT_EQ(cause("aten::log"), Cause::kIntroduced);
  // It ran after log differed, but was given nothing of it.
  EXPECT_EQ(cause("aten::neg"), Cause::kIntroduced);
  EXPECT_EQ(&diffs[at("aten::add").source], &at("aten::log"));
  EXPECT_EQ(&diffs[at("aten::sub").source], &at("aten::neg"));
}

TEST_F(OpCause, AnArgumentThatWasNotRecordedLeavesItUnknown) {
  for (auto& [side, off] : {std::pair(&a, 0), std::pair(&b, 100)}) {
    const auto x = side->op("aten::relu", {side->outside(1)}, {.bits = 10});
    side->op("aten::add", {x, side->unrecorded()}, {.bits = 11 + off, .size = 1.0 + off});
  }
  compare();
  EXPECT_EQ(cause("aten::add"), Cause::kUnknown);
  EXPECT_EQ(at("aten::add").reason, "1 of its 2 inputs cannot be compared");
}

TEST_F(OpCause, OpsWithoutACounterpartAreLookedThrough) {
  auto x = a.op("aten::mm", {a.outside(1)}, {.bits = 10});
  x = a.op("aten::relu", {x}, {.bits = 11});
  a.op("aten::mul.Tensor", {x}, {.bits = 12});
  auto y = b.op("aten::mm", {b.outside(1)}, {.bits = 10});
  b.kernel("cpp::cpp_fused_mul_relu_0", {y}, {.bits = 22, .size = 3});
  compare();
  EXPECT_EQ(cause("aten::mul.Tensor"), Cause::kIntroduced);
  EXPECT_EQ(at("aten::mul.Tensor").reason, "its input agrees bit for bit");
}

TEST_F(OpCause, WhatCameInDifferentIsNobodysFault) {
  a.op("aten::mm", {a.outside(1), a.outside(2)}, {.bits = 10});
  b.op("aten::mm", {b.outside(1), b.outside(3)}, {.bits = 20, .size = 3});
  compare();
  EXPECT_EQ(first(), "nobody");
  EXPECT_EQ(cause("aten::mm@in/1"), Cause::kUnknown);
  EXPECT_EQ(cause("aten::mm"), Cause::kInherited);
}

TEST_F(OpCause, AnOpThatIsGivenNoTensorMadeItItself) {
  a.op("aten::randn", {}, {.bits = 10});
  b.op("aten::randn", {}, {.bits = 20, .size = 3});
  compare();
  EXPECT_EQ(cause("aten::randn"), Cause::kIntroduced);
}

TEST_F(OpCause, AnArgumentWrittenInPlaceIsANewValue) {
  for (auto& [side, name, off] : {std::tuple(&a, "aten::add", 0), std::tuple(&b, "aten::add_", 100)}) {
    const auto x = side->op("aten::relu", {side->outside(1)}, {.bits = 10});
    const auto y = side->op(name, {x}, {.bits = 11 + off, .size = 1.0 + off});
    side->op("aten::neg", {y}, {.bits = 12 + off, .size = 1.0 + off});
    side->op("aten::exp", {x}, {.bits = 13 + off, .size = 1.0 + off});
  }
  compare();
  EXPECT_EQ(cause("aten::add"), Cause::kIntroduced);
  EXPECT_EQ(cause("aten::neg"), Cause::kInherited);
  EXPECT_EQ(cause("aten::exp"), Cause::kIntroduced);  // it used the value from before
}

TEST_F(OpCause, ABackwardOpInheritsFromTheForwardValueItSaved) {
  for (auto& [side, off] : {std::pair(&a, 0), std::pair(&b, 100)}) {
    const auto y = side->op("m:aten::tanh", {side->outside(1)}, {.bits = 11 + off, .size = 1.0 + off});
    const auto seed = side->op("backward:aten::ones_like", {y}, {.bits = 5});
    side->op("m:backward:aten::tanh_backward", {seed, y}, {.bits = 12 + off, .size = 1.0 + off});
  }
  compare();
  EXPECT_EQ(first(), "m:aten::tanh");
  EXPECT_EQ(&diffs[at("m:backward:aten::tanh_backward").source], &at("m:aten::tanh"));
}

TEST_F(OpCause, SameOpSameInputsOtherBitsIsNamedThoughTheStatisticsAgree) {
  for (auto& [side, off] : {std::pair(&a, 0), std::pair(&b, 100)}) {
    const auto x = side->op("aten::relu", {side->outside(1)}, {.bits = 10});
    const auto y = side->op("aten::mm", {x}, {.bits = 11 + off});
    side->op("aten::neg", {y}, {.bits = 12 + off});
  }
  compare();
  EXPECT_EQ(first(), "aten::mm");
  EXPECT_EQ(verdict("aten::mm"), Verdict::kInconclusive);
  EXPECT_EQ(cause("aten::neg"), Cause::kInherited);
}

TEST_F(OpCause, RoundingIsExpectedOfAnotherKernelAndOfWhatFollowsIt) {
  auto x = a.op("aten::cos", {a.op("aten::relu", {a.outside(1)}, {.bits = 10})}, {.bits = 11});
  a.op("aten::neg", {a.op("aten::mm", {x, a.outside(2)}, {.bits = 12})}, {.bits = 13});
  auto y = b.kernel("cpp::cpp_fused_cos_relu_0", {b.outside(1)}, {.bits = 21});
  b.op("aten::neg", {b.op("aten::mm", {y, b.outside(2)}, {.bits = 22})}, {.bits = 23, .size = 3});
  compare();
  EXPECT_EQ(verdict("aten::cos"), Verdict::kWithin);
  EXPECT_EQ(at("aten::cos").evidence, Evidence::kStatistics);
  EXPECT_EQ(verdict("aten::mm"), Verdict::kWithin);
  EXPECT_EQ(first(), "aten::neg");
}

TEST_F(OpCause, WhatAKernelsArgumentIsForIsNotToldByItsNameWhereNoGuessDecides) {
  for (auto& [side, off, size] : {std::tuple(&a, 0, 1.0), std::tuple(&b, 100, 3.0)})
    side->call("kernel", "triton::my_kernel", {side->outside(1), side->outside(50 + off)},
               {{.bits = 11 + off, .role = "after", .path = "/out", .size = size}});
  a.rename_argument(1, "/out");
  b.rename_argument(1, "/out");
  compare();
  EXPECT_EQ(cause("triton::my_kernel@after/out"), Cause::kIntroduced);
  compare(true);
  EXPECT_EQ(verdict("triton::my_kernel@after/out"), Verdict::kDiverged);
  EXPECT_EQ(cause("triton::my_kernel@after/out"), Cause::kUnknown);
}

TEST_F(OpCause, RoundingFromTheStartDoesNotHideALargerFault) {
  // Two machines: the first product already rounds otherwise.
  for (auto& [side, off, size] : {std::tuple(&a, 0, 1.0), std::tuple(&b, 100, 1.5)}) {
    const auto x = side->op("aten::mm", {side->outside(1), side->outside(2)}, {.bits = 10 + off});
    const auto y = side->op("aten::neg", {x}, {.bits = 11 + off});
    const auto z = side->op("aten::exp", {y}, {.bits = 12 + off, .size = size});
    side->op("aten::log", {z}, {.bits = 13 + off, .size = size});
  }
  compare();
  EXPECT_EQ(cause("aten::mm"), Cause::kIntroduced);
  EXPECT_EQ(verdict("aten::mm"), Verdict::kInconclusive);
  EXPECT_EQ(cause("aten::exp"), Cause::kIntroduced);
  EXPECT_EQ(verdict("aten::exp"), Verdict::kDiverged);
  EXPECT_EQ(cause("aten::log"), Cause::kInherited);
}

TEST_F(OpCause, WhatDiffersBeforeAnInsertedCopyIsInheritedBehindIt) {
  a.op("aten::neg", {a.op("aten::relu", {a.outside(1)}, {.bits = 10})}, {.bits = 11});
  auto y = b.op("aten::relu", {b.outside(1)}, {.bits = 20, .size = 3});
  y = b.op("aten::clone", {y}, {.bits = 20, .size = 3});
  b.op("aten::neg", {y}, {.bits = 21, .size = 3});
  compare();
  EXPECT_EQ(first(), "aten::relu");
  EXPECT_EQ(cause("aten::neg"), Cause::kInherited);
}

TEST_F(OpCause, AnOpThatOnlyOneSideHasIsWhereItBegins) {
  // Whichever side that is: `more` has the product.
  for (auto& [more, less, name] : {std::tuple(&b, &a, "B"), std::tuple(&a, &b, "A")}) {
    a = OpSide();
    b = OpSide();
    auto x = less->op("aten::relu", {less->outside(1)}, {.bits = 10});
    less->op("aten::softmax", {less->op("aten::mm", {x, less->outside(2)}, {.bits = 11})}, {.bits = 12});
    auto y = more->op("aten::relu", {more->outside(1)}, {.bits = 10});
    y = more->op("aten::mul.Tensor", {y}, {.bits = 20, .size = 1.5});
    y = more->op("aten::mm", {y, more->outside(2)}, {.bits = 21, .size = 1.5});
    more->op("aten::softmax", {y}, {.bits = 22, .size = 1.5});
    compare();
    EXPECT_EQ(first(), "aten::mul.Tensor");
    EXPECT_EQ(cause("aten::mm"), Cause::kInherited);
    EXPECT_EQ(at("aten::mm").reason,
              std::string("its argument 0 comes from aten::mul.Tensor, which only ") + name + " has");
    EXPECT_EQ(key(diffs[at("aten::softmax").source]), "aten::mul.Tensor");
  }
}

TEST_F(OpCause, AnOpThatOnlyOneSideHasIsNoRoundingHoweverLittleItDoes) {
  for (auto& [more, less] : {std::pair(&b, &a), std::pair(&a, &b)}) {
    a = OpSide();
    b = OpSide();
    less->op("aten::mm", {less->op("aten::relu", {less->outside(1)}, {.bits = 10}), less->outside(2)}, {.bits = 11});
    auto y = more->op("aten::relu", {more->outside(1)}, {.bits = 10});
    y = more->op("aten::round", {more->op("aten::mul.Tensor", {y}, {.bits = 20})}, {.bits = 21});
    more->op("aten::mm", {y, more->outside(2)}, {.bits = 22});
    compare();
    EXPECT_EQ(first(), "aten::mul.Tensor");
    EXPECT_EQ(verdict("aten::mm"), Verdict::kInconclusive);
    EXPECT_EQ(cause("aten::mm"), Cause::kInherited);
  }
}

TEST_F(OpCause, WhatReplacesAValueMayBeMadeOfOthersThatAgree) {
  for (auto& [side, scaled] : {std::pair(&a, false), std::pair(&b, true)}) {
    const auto x = side->op("aten::embedding", {side->outside(1)}, {.bits = 10});
    auto y = side->op("aten::add.Tensor", {x, side->op("aten::mm", {x, side->outside(2)}, {.bits = 11})}, {.bits = 12});
    if (scaled)
      y = side->op("aten::add.Tensor", {y, side->op("aten::mul.Tensor", {x}, {.bits = 20, .size = 0.01})},
                   {.bits = 21});
    side->op("aten::silu", {y}, {.bits = scaled ? 22 : 13});
  }
  compare();
  EXPECT_EQ(first(), "aten::mul.Tensor");
  EXPECT_EQ(verdict("aten::silu"), Verdict::kInconclusive);
}

TEST_F(OpCause, AnotherWeightThanTheOneThatBothSidesHaveIsNoRounding) {
  for (auto& [side, tied] : {std::pair(&a, true), std::pair(&b, false)}) {
    const auto weight = side->outside(2);
    const auto x = side->op("aten::embedding", {weight, side->outside(1)}, {.bits = 10});
    side->op("aten::mm", {x, tied ? weight : side->outside(3)}, {.bits = tied ? 11 : 12});
  }
  compare();
  EXPECT_EQ(first(), "aten::mm");
  EXPECT_EQ(verdict("aten::mm"), Verdict::kInconclusive);
  EXPECT_TRUE(at("aten::mm").reason.find("it was given another tensor: its argument 1") != std::string::npos);
}

TEST_F(OpCause, SumsInAnotherOrderAreRounding) {
  for (auto& [side, turned] : {std::pair(&a, false), std::pair(&b, true)}) {
    const auto x = side->outside(1);
    const auto one = side->op("aten::sin", {x}, {.bits = 10}), two = side->op("aten::cos", {x}, {.bits = 11}),
               three = side->op("aten::exp", {x}, {.bits = 12});
    const auto part = turned ? side->op("aten::add.Tensor", {two, three}, {.bits = 30, .size = 2})
                             : side->op("aten::add.Tensor", {one, two}, {.bits = 20, .size = 2});
    side->op("aten::add.Tensor", {part, turned ? one : three}, {.bits = turned ? 31 : 21, .size = 3});
  }
  compare();
  EXPECT_EQ(verdict("aten::add.Tensor::call2"), Verdict::kWithin);
}

TEST_F(OpCause, WhatIsMadeFromNothingDoesNotStandForACalculation) {
  // A divides the loss, so its backward divides the seed; B forgot it.
  for (auto& [side, divides] : {std::pair(&a, true), std::pair(&b, false)}) {
    const auto x = side->op("aten::mean", {side->outside(1)}, {.bits = 10, .shape = {}});
    const auto loss = divides ? side->op("aten::div.Tensor", {x}, {.bits = 11, .shape = {}, .size = 0.25}) : x;
    auto seed = side->op("backward:aten::ones_like", {loss}, {.bits = 5, .shape = {}});
    if (divides) seed = side->op("backward:aten::div.Tensor", {seed}, {.bits = 6, .shape = {}, .size = 0.25});
    side->op("backward:aten::expand", {seed}, {.bits = divides ? 7 : 8, .size = divides ? 0.25 : 1.0});
    side->op("backward:aten::mul.Tensor", {seed, side->outside(1)},
             {.bits = divides ? 17 : 18, .size = divides ? 0.25 : 1.0});
  }
  compare();
  EXPECT_EQ(first(), "backward:aten::div.Tensor");
  EXPECT_EQ(at("backward:aten::div.Tensor").match.b, kNoTensor);
}

TEST_F(OpCause, ACollectiveMayHaveGotTheErrorFromAnotherRank) {
  for (const char* name : {"c10d::allreduce_", "_c10d_functional::all_reduce", "_c10d_functional::wait_tensor"}) {
    a = OpSide();
    b = OpSide();
    for (auto& [side, off] : {std::pair(&a, 0), std::pair(&b, 100)}) {
      const auto gradient = side->op("backward:aten::mm", {side->outside(1)}, {.bits = 10});
      const auto sum = side->op(name, {gradient}, {.bits = 11 + off, .size = 1.0 + off});
      side->op("aten::mul.Tensor", {sum}, {.bits = 12 + off, .size = 1.0 + off});
    }
    compare();
    EXPECT_EQ(first(), "nobody") << name;
    EXPECT_EQ(cause(name), Cause::kUnknown);
    EXPECT_EQ(at(name).reason, "what another rank gave to this collective differs, or was not compared");
    EXPECT_EQ(&diffs[at("aten::mul.Tensor").source], &at(name));
  }
}

TEST_F(OpCause, AnotherTensorThanTheOtherSideGaveIsSaid) {
  for (auto& [side, wrong] : {std::pair(&a, false), std::pair(&b, true)}) {
    const auto x = side->outside(1);
    const auto sine = side->op("aten::sin", {x}, {.bits = 10}),
               cosine = side->op("aten::cos", {x}, {.bits = 11, .size = 2});
    side->op("aten::mm", {wrong ? cosine : sine, side->outside(2)},
             {.bits = wrong ? 21 : 20, .size = wrong ? 4.0 : 3.0});
  }
  compare();
  EXPECT_EQ(first(), "aten::mm");
  EXPECT_EQ(at("aten::mm").reason, "it was given another tensor: its argument 0 is aten::sin in A and aten::cos in B");
}

TEST_F(OpCause, TheOrderOfSummandsDoesNotMatter) {
  for (auto& [side, turned] : {std::pair(&a, false), std::pair(&b, true)}) {
    const auto x = side->outside(1);
    const auto sine = side->op("aten::sin", {x}, {.bits = 10}),
               cosine = side->op("aten::cos", {x}, {.bits = 11, .size = 2});
    if (turned) {
      side->op("aten::add.Tensor", {cosine, sine}, {.bits = 21, .size = 7});
    } else {
      side->op("aten::add.Tensor", {sine, cosine}, {.bits = 20, .size = 3});
    }
  }
  compare();
  EXPECT_EQ(first(), "aten::add.Tensor");
  EXPECT_EQ(at("aten::add.Tensor").reason, "its 2 input tensors agree bit for bit");
}

TEST_F(OpCause, AModuleAroundTheOpInheritsFromInsideIt) {
  for (auto& [side, off] : {std::pair(&a, 0), std::pair(&b, 100)}) {
    side->inside = side->module("m");
    side->op("m:aten::mm", {side->outside(1)}, {.bits = 10 + off, .size = 1.0 + off});
    side->module_out(side->inside, {.bits = 10 + off, .size = 1.0 + off});
  }
  compare();
  EXPECT_EQ(first(), "m:aten::mm");
  EXPECT_EQ(cause("m"), Cause::kInherited);
}

}  // namespace
}  // namespace ttap::test
