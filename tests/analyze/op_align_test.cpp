#include "analyze/diff/match/ops/op_align.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "alignment.h"
#include "op_side.h"

namespace ttap::test {
namespace {

// Only what ops made, not what they were given from outside.
Lines made(const Side& a, const Side& b) {
  Lines lines;
  for (const Match& match : align(a, b)) {
    const TensorRecord record = match.a != kNoTensor ? a.tensor(match.a) : b.tensor(match.b);
    if (record.role != "in") lines.push_back(written(a, b, match));
  }
  return lines;
}

TEST(OpAlign, EqualTracesMatchOneForOne) {
  OpSide a, b;
  for (OpSide* side : {&a, &b}) {
    auto x = side->outside(1);
    for (int i = 0; i < 3; ++i) x = side->op("aten::relu", {x}, {.bits = 10 + i});
  }
  EXPECT_EQ(aligned(a, b), (Lines{"aten::relu@in/0 bits aten::relu@in/0", "aten::relu op aten::relu",
                                  "aten::relu::call2 op aten::relu::call2", "aten::relu::call3 op aten::relu::call3"}));
}

TEST(OpAlign, AnInsertedOpDoesNotShiftLaterCallsOfItsName) {
  OpSide a, b;
  auto x = a.op("aten::mul", {a.outside(1)}, {.bits = 10});
  a.op("aten::mul", {x}, {.bits = 11});
  auto y = b.op("aten::mul", {b.outside(1)}, {.bits = 10});
  y = b.op("aten::mul", {y}, {.bits = 77});
  b.op("aten::mul", {y}, {.bits = 11});
  EXPECT_EQ(made(a, b),
            (Lines{"aten::mul op aten::mul", "- aten::mul::call2", "aten::mul::call2 op aten::mul::call3"}));
}

TEST(OpAlign, ADeletedOpIsMissingAndNothingElse) {
  OpSide a, b;
  auto x = a.op("aten::mul", {a.outside(1)}, {.bits = 10});
  x = a.op("aten::neg", {x}, {.bits = 11});
  a.op("aten::mul", {x}, {.bits = 12});
  auto y = b.op("aten::mul", {b.outside(1)}, {.bits = 10});
  b.op("aten::mul", {y}, {.bits = 22});
  EXPECT_EQ(made(a, b), (Lines{"aten::mul op aten::mul", "aten::neg -", "aten::mul::call2 op aten::mul::call2"}));
}

TEST(OpAlign, WithoutHashesAndUsesTheCommonSubsequenceTells) {
  OpSide a, b;
  a.tells_uses = b.tells_uses = false;
  for (const char* name : {"aten::mm", "aten::relu", "aten::mm", "aten::softmax"}) a.op(name, {});
  for (const char* name : {"aten::mm", "aten::mm", "aten::relu", "aten::mm", "aten::softmax"}) b.op(name, {});
  const Lines lines = made(a, b);
  EXPECT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[2], "aten::relu op aten::relu");
  EXPECT_EQ(lines[4], "aten::softmax op aten::softmax");
}

TEST(OpAlign, ReorderedOpsAreFoundByWhatTheyWereGivenThoughTheValuesDiffer) {
  OpSide a, b;
  const auto projections = [](OpSide& side, int x_bits, int first_weight, int second_weight, int made_bits) {
    const auto x = side.op("aten::relu", {side.outside(1)}, {.bits = x_bits});
    for (const int weight : {first_weight, second_weight}) {
      const auto y = side.op("aten::mm", {x, side.outside(weight)}, {.bits = made_bits + weight});
      side.op("aten::neg", {y}, {.bits = made_bits + 10 + weight});
    }
  };
  projections(a, 50, 5, 6, 100);
  projections(b, 60, 6, 5, 200);
  EXPECT_EQ(made(a, b),
            (Lines{"aten::relu op aten::relu", "aten::mm op aten::mm::call2", "aten::neg op aten::neg::call2",
                   "aten::mm::call2 op aten::mm", "aten::neg::call2 op aten::neg"}));
}

TEST(OpAlign, OpsOfDifferentModulesThatShareOneOfTwoArgumentsAreDifferent) {
  // B adds something to the result of the first layer, and the second layer goes on with that.
  OpSide a, b;
  for (auto& [side, more] : {std::pair(&a, false), std::pair(&b, true)}) {
    const int off = more ? 100 : 0;
    const auto in = side->outside(1);
    auto x = side->op("layers.0:aten::mm", {in, side->outside(2)}, {.bits = 10});
    if (more) {
      const auto y = side->op("layers.0:aten::neg", {in}, {.bits = 30});
      x = side->op("layers.0:aten::add.Tensor", {x, y}, {.bits = 31});
    }
    const auto y = side->op("layers.1:aten::exp", {x}, {.bits = 11 + off});
    side->op("layers.1:aten::add.Tensor", {x, y}, {.bits = 12 + off});
  }
  EXPECT_EQ(made(a, b), (Lines{"layers.0:aten::mm op layers.0:aten::mm", "- layers.0:aten::neg",
                               "- layers.0:aten::add.Tensor", "layers.1:aten::exp op layers.1:aten::exp",
                               "layers.1:aten::add.Tensor op layers.1:aten::add.Tensor"}));
}

TEST(OpAlign, OverloadsAndWorkInPlaceAreTheSameOperator) {
  OpSide a, b;
  auto x = a.op("aten::mm", {a.outside(1)}, {.bits = 10});
  a.op("aten::add.Tensor", {x}, {.bits = 11});
  auto y = b.op("aten::mm.out", {b.outside(1)}, {.bits = 20});
  b.op("aten::add_.Scalar", {y}, {.bits = 21});
  EXPECT_EQ(made(a, b), (Lines{"aten::mm op aten::mm.out", "aten::add.Tensor op aten::add_.Scalar"}));
}

TEST(OpAlign, OfSeveralOverloadsTheSameOneIsPreferred) {
  OpSide a, b;
  a.tells_uses = b.tells_uses = false;
  a.op("aten::add.Tensor", {});
  b.op("aten::add.Scalar", {});
  b.op("aten::add.Tensor", {});
  EXPECT_EQ(made(a, b), (Lines{"- aten::add.Scalar", "aten::add.Tensor op aten::add.Tensor"}));
}

TEST(OpAlign, AReplacedOperatorStandsForTheOther) {
  // The wrong decomposition of a tutorial: cos became sin.
  OpSide a, b;
  for (auto& [side, wrong, bits] : {std::tuple(&a, "aten::cos", 30), std::tuple(&b, "aten::sin", 40)}) {
    const auto x = side->outside(1);
    const auto y = side->op("aten::relu", {x}, {.bits = 20});
    const auto z = side->op(wrong, {x}, {.bits = bits});
    side->op("aten::add.Tensor", {y, z}, {.bits = bits + 1});
  }
  EXPECT_EQ(made(a, b),
            (Lines{"aten::relu op aten::relu", "aten::cos for aten::sin", "aten::add.Tensor op aten::add.Tensor"}));
}

TEST(OpAlign, AReplacedOperatorIsFoundWhereNothingComesAfterIt) {
  OpSide a, b;
  a.op("aten::cos", {a.op("aten::relu", {a.outside(1)}, {.bits = 20})}, {.bits = 30});
  b.op("aten::sin", {b.op("aten::relu", {b.outside(1)}, {.bits = 20})}, {.bits = 40});
  EXPECT_EQ(made(a, b), (Lines{"aten::relu op aten::relu", "aten::cos for aten::sin"}));
}

TEST(OpAlign, AKernelStandsForTheLastOfTheOpsItFused) {
  OpSide a, b;
  auto x = a.op("aten::mm", {a.outside(1)}, {.bits = 10});
  x = a.op("aten::relu", {x}, {.bits = 11});
  x = a.op("aten::add.Tensor", {x}, {.bits = 12});
  x = a.op("aten::mul.Tensor", {x}, {.bits = 13});
  a.op("aten::mm", {x, a.outside(2)}, {.bits = 14});
  auto y = b.op("aten::mm.out", {b.outside(1)}, {.bits = 10});
  y = b.kernel("cpp::cpp_fused_add_mul_relu_0", {y}, {.bits = 23});
  b.op("aten::mm.out", {y, b.outside(2)}, {.bits = 24});
  EXPECT_EQ(made(a, b), (Lines{"aten::mm op aten::mm.out", "aten::relu -", "aten::add.Tensor -",
                               "aten::mul.Tensor for cpp::cpp_fused_add_mul_relu_0@after/out_ptr0",
                               "aten::mm::call2 op aten::mm.out::call2"}));
}

TEST(OpAlign, KernelsInARowTakeTheOpsThatTheirNamesMention) {
  OpSide a, b;
  auto x = a.outside(1);
  for (int i = 0; i < 2; ++i) {
    x = a.op("aten::add.Tensor", {x}, {.bits = 10 + i});
    x = a.op("aten::relu", {x}, {.bits = 20 + i});
  }
  auto y = b.kernel("triton::triton_poi_fused_add_relu_0", {b.outside(1)}, {.bits = 30});
  b.kernel("triton::triton_poi_fused_add_relu_1", {y}, {.bits = 31});
  EXPECT_EQ(
      made(a, b),
      (Lines{"aten::add.Tensor -", "aten::relu for triton::triton_poi_fused_add_relu_0@after/out_ptr0",
             "aten::add.Tensor::call2 -", "aten::relu::call2 for triton::triton_poi_fused_add_relu_1@after/out_ptr0"}));
}

TEST(OpAlign, TheReferenceMayBeTheCompiledOne) {
  OpSide a, b;
  a.kernel("cpp::cpp_fused_cos_relu_0", {a.outside(1)}, {.bits = 30});
  b.op("aten::cos", {b.op("aten::relu", {b.outside(1)}, {.bits = 10})}, {.bits = 11});
  EXPECT_EQ(made(a, b), (Lines{"- aten::relu", "cpp::cpp_fused_cos_relu_0@after/out_ptr0 for aten::cos"}));
}

TEST(OpAlign, AValueWithTheSameBitsIsTheSameWhateverMadeIt) {
  OpSide a, b;
  auto x = a.op("aten::relu", {a.outside(1)}, {.bits = 11});
  a.op("aten::neg", {x}, {.bits = 12});
  b.call("kernel", "cpp::cpp_fused_0", {b.outside(1)},
         {{.bits = 12, .role = "after", .path = "/out_ptr0"}, {.bits = 11, .role = "after", .path = "/out_ptr1"}});
  EXPECT_EQ(made(a, b), (Lines{"aten::relu bits cpp::cpp_fused_0@after/out_ptr1",
                               "aten::neg bits cpp::cpp_fused_0@after/out_ptr0"}));
}

TEST(OpAlign, ADecompositionEndsInTheValueOfWhatItReplaces) {
  OpSide a, b;
  const auto x = a.op("aten::gelu", {a.outside(1)}, {.bits = 10});
  a.op("aten::mm", {x, a.outside(2)}, {.bits = 11});
  const auto in = b.outside(1);
  const auto half = b.op("aten::mul.Tensor", {in}, {.bits = 20});
  const auto erf = b.op("aten::erf", {in}, {.bits = 21});
  const auto y = b.op("aten::mul.Tensor", {half, erf}, {.bits = 22});
  b.op("aten::mm", {y, b.outside(2)}, {.bits = 23});
  EXPECT_EQ(made(a, b), (Lines{"- aten::mul.Tensor", "- aten::erf", "aten::gelu for aten::mul.Tensor::call2",
                               "aten::mm op aten::mm"}));
}

TEST(OpAlign, WhatOneSideDidNotSeeMadeIsFoundAsTheArgumentOfWhatItDidSee) {
  // A kernel that nothing records stands before the product.
  OpSide a, b;
  const auto x = a.op("aten::native_layer_norm", {a.outside(1)}, {.bits = 10});
  a.op("aten::addmm", {a.outside(5), x, a.outside(6)}, {.bits = 11});
  b.op("aten::addmm.out", {b.outside(5), b.outside(20), b.outside(6)}, {.bits = 21});
  EXPECT_EQ(made(a, b), (Lines{"aten::native_layer_norm for aten::addmm.out@in/1", "aten::addmm op aten::addmm.out"}));
}

TEST(OpAlign, AnOperatorThatIsGivenTheSameWeightInAnotherOrderStandsForTheOther) {
  // linear(x, W) against mm(x, transposed W).
  OpSide a, b;
  const auto weights = [](OpSide& side, int bits) { return side.outside(bits, {8, 8}, 3.25); };
  a.op("aten::linear", {a.op("aten::relu", {a.outside(1)}, {.bits = 10}), weights(a, 5)},
       {.bits = 11, .shape = {2, 1, 3}});
  b.op("aten::mm", {b.op("aten::relu", {b.outside(1)}, {.bits = 20}), weights(b, 6)}, {.bits = 21});
  EXPECT_EQ(made(a, b), (Lines{"aten::relu op aten::relu", "aten::linear for aten::mm"}));
}

TEST(OpAlign, CopiesAndViewsOnOneSideDoNotMatter) {
  OpSide a, b;
  a.op("aten::neg", {a.op("aten::relu", {a.outside(1)}, {.bits = 10})}, {.bits = 11});
  auto y = b.op("aten::relu", {b.outside(1)}, {.bits = 20});
  y = b.op("aten::detach", {y}, {.bits = 20});
  y = b.op("aten::view", {y}, {.bits = 20});
  b.op("aten::neg", {y}, {.bits = 21});
  EXPECT_EQ(made(a, b), (Lines{"aten::relu op aten::relu", "- trivial aten::detach", "- trivial aten::view",
                               "aten::neg op aten::neg"}));
}

TEST(OpAlign, MemoryThatNobodyWroteIsNotCompared) {
  OpSide a, b;
  a.op("aten::empty", {}, {.bits = 10});
  b.op("aten::empty", {}, {.bits = 20});
  EXPECT_EQ(made(a, b), (Lines{"- trivial aten::empty", "aten::empty trivial -"}));
}

TEST(OpAlign, ScopesThatOneSideLacksAreAlignedAsAWhole) {
  OpSide a, b;
  const uint32_t root = a.module("Model");
  auto x = a.outside(1);
  for (const char* name : {"layers.0", "layers.1"}) {
    a.inside = a.module(name, root);
    x = a.op(std::string(name) + ":aten::addmm", {x}, {});
    a.inside = root;
    x = a.op("Model:aten::relu", {x}, {});
  }
  b.inside = b.module("Model");
  auto y = b.outside(1);
  for (int i = 0; i < 2; ++i) {
    y = b.op("Model:aten::addmm", {y}, {});
    y = b.op("Model:aten::relu", {y}, {});
  }
  EXPECT_EQ(made(a, b), (Lines{"layers.0:aten::addmm op Model:aten::addmm", "Model:aten::relu op Model:aten::relu",
                               "layers.1:aten::addmm op Model:aten::addmm::call2",
                               "Model:aten::relu::call2 op Model:aten::relu::call2"}));
}

TEST(OpAlign, ModulesThatRunInAnotherOrderAreAlignedEachByItself) {
  OpSide a, b;
  a.tells_uses = b.tells_uses = false;
  for (const char* name : {"left:aten::mm", "left:aten::relu", "right:aten::mm", "right:aten::relu"}) a.op(name, {});
  for (const char* name : {"right:aten::mm", "right:aten::relu", "left:aten::mm", "left:aten::relu"}) b.op(name, {});
  for (const std::string& line : made(a, b))
    EXPECT_EQ(line, line.substr(0, line.find(' ')) + " op " + line.substr(0, line.find(' ')));
}

TEST(OpAlign, AnOpMoreInOneOfManyEqualLayersStaysInItsLayer) {
  OpSide a, b;
  a.tells_uses = b.tells_uses = false;
  for (OpSide* side : {&a, &b})
    for (int layer = 0; layer < 8; ++layer) {
      const std::string scope = "layers." + std::to_string(layer) + ":";
      side->op(scope + "aten::mm", {});
      if (side == &b && layer == 3) side->op(scope + "aten::mm", {}, {.shape = {2, 4}});
      side->op(scope + "aten::relu", {});
    }
  const Lines lines = made(a, b);
  EXPECT_EQ(lines.size(), 17u);
  EXPECT_EQ(std::ranges::count_if(lines, [](const std::string& line) { return line.starts_with("- "); }), 1);
  EXPECT_EQ(lines[7], "- layers.3:aten::mm::call2");
}

TEST(OpAlign, ForwardAndBackwardAreKeptApart) {
  OpSide a, b;
  a.tells_uses = b.tells_uses = false;
  a.op("m:aten::mm", {});
  a.op("m:backward:aten::mm", {});
  b.op("m:backward:aten::mm", {});
  EXPECT_EQ(made(a, b), (Lines{"m:aten::mm -", "m:backward:aten::mm op m:backward:aten::mm"}));
}

TEST(OpAlign, OfAThousandEqualOpsOneMoreIsOneMore) {
  OpSide a, b;
  for (int i = 0; i < 1000; ++i) a.op("aten::relu", {a.outside(1)}, {.bits = 7});
  for (int i = 0; i < 1001; ++i) b.op("aten::relu", {b.outside(1)}, {.bits = 7});
  const Lines lines = made(a, b);
  EXPECT_EQ(lines.size(), 1001u);
  EXPECT_EQ(std::ranges::count_if(lines, [](const std::string& line) { return line.starts_with("- "); }), 1);
}

TEST(OpAlign, ALoopThatRunsOnceMoreKeepsTheRest) {
  OpSide a, b;
  const auto loop = [](OpSide& side, int turns, int off) {
    auto x = side.outside(1);
    for (int i = 0; i < turns; ++i) x = side.op("aten::mul", {x}, {.bits = off + i});
    side.op("aten::sum", {x}, {.bits = off - turns, .shape = {}});
  };
  loop(a, 1000, 5000);
  loop(b, 1001, 5000);
  const Lines lines = made(a, b);
  EXPECT_EQ(lines.size(), 1002u);
  EXPECT_EQ(lines[999], "aten::mul::call1000 op aten::mul::call1000");
  EXPECT_EQ(lines[1000], "- aten::mul::call1001");
  EXPECT_EQ(lines[1001], "aten::sum op aten::sum");
}

TEST(OpAlign, TensorsOfModulesGoByTheirKeysAsBefore) {
  MemorySide a{{"blocks.0", {4}, "module"}, {"aten::relu", {4}, "op"}};
  MemorySide b{{"blocks.0", {4}, "module"}, {"aten::relu", {4}, "op"}};
  EXPECT_EQ(aligned(a, b), (Lines{"blocks.0 = blocks.0", "aten::relu op aten::relu"}));
}

TEST(OpAlign, AnOpWithoutACounterpartIsNotMatchedByItsKey) {
  OpSide a, b;
  a.op("aten::mm", {a.outside(1)}, {.bits = 10, .shape = {2, 3}});
  b.op("aten::mm", {b.outside(2)}, {.bits = 30, .shape = {9}});
  b.op("aten::mm", {b.outside(1)}, {.bits = 20, .shape = {2, 3}});
  EXPECT_EQ(made(a, b), (Lines{"- aten::mm", "aten::mm op aten::mm::call2"}));
}

}  // namespace
}  // namespace ttap::test
