#include <gtest/gtest.h>

#include <functional>

#include "alignment.h"
#include "analyze/diff/blame/cause.h"
#include "analyze/diff/blame/ends.h"
#include "analyze/diff/judge/compare_pairs.h"
#include "op_side.h"

namespace ttap::test {
namespace {

// Two programs that begin in the same way: what is made of the same value by the one, and by the other.
using Rest = std::function<void(OpSide&, Value)>;
const Rest kNothing = [](OpSide&, Value) {};

// What is said of them: key and reason of what introduced the difference.
std::string said(const Rest& rest_a, const Rest& rest_b) {
  OpSide a, b;
  for (const auto& [side, rest] : {std::pair(&a, &rest_a), std::pair(&b, &rest_b)}) {
    const Value x = side->op("aten::relu", {side->outside(1)}, {.bits = 10});
    (*rest)(*side, side->op("aten::addmm", {x, side->outside(2)}, {.bits = 11, .size = 2}));
  }
  std::vector<TensorDiff> diffs;
  for (const Match& match : align(a, b)) diffs.emplace_back().match = match;
  const Tolerances tolerances = Tolerances::create({}).value();
  compare_pairs({a, b, tolerances}, diffs, 1);
  find_causes(a, b, {}, {}, diffs);
  find_ends(a, b, diffs);
  std::string text;
  for (const TensorDiff& diff : diffs)
    if (diff.cause == Cause::kIntroduced)
      text += to_string((diff.match.a != kNoTensor ? a.tensor(diff.match.a) : b.tensor(diff.match.b)).key()) + ": " +
              diff.reason + "\n";
  return text;
}

const Rest kCapped = [](OpSide& side, Value y) {
  const Value z =
      side.op("aten::tanh", {side.op("aten::div.Tensor", {y}, {.bits = 20, .size = 3})}, {.bits = 21, .size = 4});
  side.op("aten::mul.Tensor", {z}, {.bits = 22, .size = 5});
};

TEST(OpEnds, WhereOneProgramEndsTheOtherGoesOn) {
  EXPECT_EQ(said(kCapped, kNothing),
            "aten::div.Tensor: B ends with aten::addmm, from which A goes on to aten::mul.Tensor\n");
  EXPECT_EQ(said(kNothing, kCapped),
            "aten::div.Tensor: A ends with aten::addmm, from which B goes on to aten::mul.Tensor\n");
}

TEST(OpEnds, WhatIsWrittenInPlaceGoesOnToo) {
  const Rest twice = [](OpSide& side, Value y) {
    side.op("aten::mul_.Tensor", {y}, {.bits = 20, .role = "after", .path = "/0", .size = 4});
  };
  EXPECT_EQ(said(twice, kNothing),
            "aten::mul_.Tensor@after/0: B ends with aten::addmm, from which A goes on to aten::mul_.Tensor@after/0\n");
}

TEST(OpEnds, WhatIsWrittenAtLastCountsThoughItWasUsedBefore) {
  const auto used = [](bool decays) {
    return [=](OpSide& side, Value y) {
      side.op("aten::neg", {y}, {.bits = 30, .size = 2});
      if (decays) side.op("aten::mul_.Tensor", {y}, {.bits = 20, .size = 4});
    };
  };
  EXPECT_EQ(said(used(true), used(false)),
            "aten::mul_.Tensor: B ends with aten::addmm, from which A goes on to aten::mul_.Tensor\n");
  // What is written all over does not depend on what was there.
  const Rest cleared = [](OpSide& side, Value y) {
    side.op("aten::neg", {y}, {.bits = 30, .size = 2});
    side.op("aten::zero_", {y}, {.bits = 20, .role = "after", .path = "/0", .size = 4});
  };
  EXPECT_EQ(said(cleared, used(false)), "");
}

TEST(OpEnds, BothMayGoOnEachInItsOwnWay) {
  const Rest doubled = [](OpSide& side, Value y) { side.op("aten::mul.Tensor", {y}, {.bits = 20, .size = 4}); };
  const Rest joined = [](OpSide& side, Value y) {
    side.op("aten::cat", {y, y}, {.bits = 30, .shape = {4, 3}, .size = 2});
  };
  EXPECT_EQ(said(doubled, joined),
            "aten::cat: A makes something else of aten::addmm, from which B goes on to aten::cat\n"
            "aten::mul.Tensor: B makes something else of aten::addmm, from which A goes on to aten::mul.Tensor\n");
}

TEST(OpEnds, WhatIsPutTogetherOnOneSideGoesNoOtherWay) {
  // One product of which parts are taken, and one for each part, which rounds otherwise.
  const Rest whole = [](OpSide& side, Value y) {
    const Value both = side.op("aten::mm", {y, side.outside(3, {3, 8})}, {.bits = 20, .shape = {2, 8}, .size = 5});
    side.call("op", "aten::split.Tensor", {both},
              {{.bits = 21, .shape = {2, 4}, .path = "/0", .size = 5},
               {.bits = 22, .shape = {2, 4}, .path = "/1", .size = 3}});
  };
  const Rest parts = [](OpSide& side, Value y) {
    side.op("aten::mm", {y, side.outside(4, {3, 4})}, {.bits = 31, .shape = {2, 4}, .size = 5});
    side.op("aten::mm", {y, side.outside(5, {3, 4})}, {.bits = 32, .shape = {2, 4}, .size = 3});
  };
  EXPECT_EQ(said(whole, parts), "");
}

TEST(OpEnds, CopiesAreLookedThrough) {
  const Rest copied = [](OpSide& side, Value y) { side.op("aten::clone", {y}, {.bits = 11, .size = 2}); };
  const Rest doubled = [](OpSide& side, Value y) {
    const Value z = side.op("aten::mul.Tensor", {y}, {.bits = 20, .size = 4});
    side.op("aten::clone", {z}, {.bits = 20, .size = 4});
  };
  EXPECT_EQ(said(doubled, copied),
            "aten::mul.Tensor: B ends with aten::addmm, from which A goes on to aten::mul.Tensor\n");
  EXPECT_EQ(said(copied, kNothing), "");
}

TEST(OpEnds, ValuesInAnotherOrderAreOthers) {
  const Rest turned = [](OpSide& side, Value y) {
    const Value z = side.op("aten::transpose.int", {y}, {.bits = 20, .shape = {3, 2}, .size = 2});
    side.op("aten::clone", {z}, {.bits = 20, .shape = {3, 2}, .size = 2});
  };
  EXPECT_EQ(said(turned, kNothing), "aten::clone: B ends with aten::addmm, from which A goes on to aten::clone\n");
  // A view alone makes nothing, and a part that is put aside is not the end.
  const Rest viewed = [](OpSide& side, Value y) {
    side.op("aten::transpose.int", {y}, {.bits = 20, .shape = {3, 2}, .size = 2});
  };
  EXPECT_EQ(said(viewed, kNothing), "");
  const Rest part = [](OpSide& side, Value y) {
    const Value z = side.op("aten::select.int", {y}, {.bits = 20, .shape = {3}, .size = 2});
    side.op("aten::clone", {z}, {.bits = 20, .shape = {3}, .size = 2});
  };
  EXPECT_EQ(said(part, kNothing), "");
}

TEST(OpEnds, WhatIsReadOnTheWayIsNoEnd) {
  const Rest logged = [](OpSide& side, Value y) {
    const Value most = side.op("aten::max", {side.op("aten::abs", {y}, {.bits = 20, .size = 3})},
                               {.bits = 21, .shape = {}, .size = 3});
    side.call("op", "aten::_local_scalar_dense", {most}, {});
  };
  EXPECT_EQ(said(logged, kNothing), "");
  const Rest chosen = [](OpSide& side, Value y) {
    side.op("aten::argmax", {y}, {.bits = 20, .shape = {2}, .size = 3, .dtype = DType::kI64});
  };
  EXPECT_EQ(said(chosen, kNothing), "");
  const Rest drawn = [](OpSide& side, Value y) {
    side.op("aten::randn_like", {y}, {.bits = 20, .size = 3});
    side.op("aten::bernoulli.p", {y}, {.bits = 21, .size = 4});
    side.op("aten::zeros_like", {y}, {.bits = 22, .size = 5});
  };
  EXPECT_EQ(said(drawn, kNothing), "");
}

TEST(OpEnds, WhatTheOtherSideGoesOnFromIsNotItsEnd) {
  const Rest more = [](OpSide& side, Value y) {
    side.op("aten::mul.Tensor", {y}, {.bits = 20, .size = 3});
    side.op("aten::neg", {y}, {.bits = 30, .size = 2});
  };
  const Rest less = [](OpSide& side, Value y) { side.op("aten::neg", {y}, {.bits = 30, .size = 2}); };
  EXPECT_EQ(said(more, less), "");
}

TEST(OpEnds, ABackwardOfOneSideOnlyIsNoOtherEnd) {
  const Rest trained = [](OpSide& side, Value y) {
    side.op("backward:aten::tanh_backward", {y}, {.bits = 20, .size = 3});
  };
  EXPECT_EQ(said(trained, kNothing), "");
}

TEST(OpEnds, OfKernelsNothingIsSaid) {
  const Rest fused = [](OpSide& side, Value y) {
    side.kernel("cpp::cpp_fused_mul_0", {y}, {.bits = 20, .shape = {7}, .size = 3});
  };
  EXPECT_EQ(said(kNothing, fused), "");
}

}  // namespace
}  // namespace ttap::test
