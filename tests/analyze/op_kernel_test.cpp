#include <gtest/gtest.h>

#include <algorithm>

#include "alignment.h"
#include "op_side.h"

// Fused kernels, and which of their buffers is which value.
namespace ttap::test {
namespace {

Lines kernels_made(const Side& a, const Side& b, const AlignOptions& options = {}) {
  Lines lines;
  for (const Match& match : align(a, b, options)) {
    const TensorRecord record = match.a != kNoTensor ? a.tensor(match.a) : b.tensor(match.b);
    if (record.role != "in") lines.push_back(written(a, b, match));
  }
  return lines;
}

Made buffer(const char* path, int bits, double size, std::vector<int64_t> shape = {2, 3}, DType dtype = DType::kF32) {
  return {.bits = bits, .shape = std::move(shape), .role = "after", .path = path, .size = size, .dtype = dtype};
}

void norm(OpSide& side) {
  side.call("op", "aten::native_layer_norm", {side.outside(1)},
            {{.bits = 10, .path = "/0"},
             {.bits = 11, .shape = {2, 1}, .path = "/1", .size = 0.3},
             {.bits = 12, .shape = {2, 1}, .path = "/2", .size = 1.1}});
}

TEST(OpKernel, BuffersBelongToTheValuesThatTheyAreNearToAndOthersToNone) {
  OpSide a, b;
  norm(a);
  // A sum of squares stands where the op has the reciprocal of its root.
  b.call("kernel", "cpp::cpp_fused_native_layer_norm_0", {b.outside(1)},
         {buffer("/in_out_ptr0", 21, 0.3, {2, 1}), buffer("/out_ptr1", 22, 15, {2, 1}), buffer("/out_ptr2", 20, 1)});
  const std::string kernel = "cpp::cpp_fused_native_layer_norm_0@after/";
  EXPECT_EQ(kernels_made(a, b), (Lines{"aten::native_layer_norm/0 for " + kernel + "out_ptr2",
                               "aten::native_layer_norm/1 for " + kernel + "in_out_ptr0", "- " + kernel + "out_ptr1",
                               "aten::native_layer_norm/2 -"}));
}

TEST(OpKernel, AWrongResultIsFoundThoughItIsNearToNothing) {
  OpSide a, b;
  norm(a);
  b.call("kernel", "cpp::cpp_fused_native_layer_norm_0", {b.outside(1)},
         {buffer("/in_out_ptr0", 21, 0.3, {2, 1}), buffer("/out_ptr1", 22, 15, {2, 1}), buffer("/out_ptr2", 20, 7)});
  const Lines lines = kernels_made(a, b);
  EXPECT_NE(std::ranges::find(lines, "aten::native_layer_norm/0 for cpp::cpp_fused_native_layer_norm_0@after/out_ptr2"),
            lines.end());
}

TEST(OpKernel, WhatOnlyTheNextKernelIsGivenIsNotProof) {
  // The first kernel keeps something of its own for the second, which makes all the rest again.
  OpSide a, b;
  auto x = a.op("aten::add.Tensor", {a.outside(1)}, {.bits = 10});
  x = a.op("aten::native_layer_norm", {x}, {.bits = 11, .size = 2});
  a.op("aten::relu", {x}, {.bits = 12, .size = 4});
  const auto y = b.kernel("cpp::cpp_fused_add_native_layer_norm_0", {b.outside(1)}, {.bits = 20, .size = 9});
  b.kernel("cpp::cpp_fused_native_layer_norm_relu_1", {y}, {.bits = 21, .size = 4});
  EXPECT_EQ(kernels_made(a, b), (Lines{"- cpp::cpp_fused_add_native_layer_norm_0@after/out_ptr0", "aten::add.Tensor -",
                               "aten::native_layer_norm -",
                               "aten::relu for cpp::cpp_fused_native_layer_norm_relu_1@after/out_ptr0"}));
}

TEST(OpKernel, AMaskIsNotHeldAgainstNumbers) {
  OpSide a, b;
  a.op("aten::relu", {a.outside(1)}, {.bits = 10});
  b.call("kernel", "cpp::cpp_fused_relu_threshold_backward_0", {b.outside(1)},
         {buffer("/in_out_ptr0", 20, 5), buffer("/out_ptr0", 21, 1, {2, 3}, DType::kBool)});
  EXPECT_EQ(kernels_made(a, b), (Lines{"aten::relu for cpp::cpp_fused_relu_threshold_backward_0@after/in_out_ptr0",
                               "- cpp::cpp_fused_relu_threshold_backward_0@after/out_ptr0"}));
}

TEST(OpKernel, AKernelThatIsGivenTheSameTensorIsNotTheOp) {
  // A sum with the input of the model, and a kernel that turns that input round.
  OpSide a, b;
  a.op("aten::add.Tensor",
       {a.op("aten::relu", {a.outside(2, {4, 4})}, {.bits = 10, .shape = {4, 4}}), a.outside(1, {4, 4})},
       {.bits = 11, .shape = {4, 4}, .size = 2});
  b.kernel("cpp::cpp_fused_clone_transpose_0", {b.outside(1, {4, 4})}, {.bits = 20, .shape = {4, 4}, .size = 5});
  EXPECT_EQ(kernels_made(a, b),
            (Lines{"aten::relu -", "- cpp::cpp_fused_clone_transpose_0@after/out_ptr0", "aten::add.Tensor -"}));
}

TEST(OpKernel, AViewOfABufferLeadsToTheKernel) {
  // No op tells of the view, so the argument seems to come from outside.
  OpSide a, b;
  auto x = a.op("aten::relu", {a.outside(1)}, {.bits = 10});
  x = a.op("aten::view", {x}, {.bits = 10, .shape = {6}});
  a.op("aten::mm", {x, a.outside(2)}, {.bits = 11});
  b.call("kernel", "cpp::cpp_fused_relu_0", {b.outside(1)}, {buffer("/out_ptr0", 20, 5), buffer("/out_ptr1", 22, 7)});
  b.op("aten::mm.out", {b.outside(20, {6}, 5), b.outside(2)}, {.bits = 21});
  const Lines lines = kernels_made(a, b);
  EXPECT_NE(std::ranges::find(lines, "aten::relu for cpp::cpp_fused_relu_0@after/out_ptr0"), lines.end());
}

TEST(OpKernel, TheResultsOfADropoutAreNotItsMask) {
  OpSide a, b;
  const auto x = a.outside(1);
  auto noise = a.op("aten::bernoulli_.float", {}, {.bits = 10});
  noise = a.op("aten::div_.Scalar", {noise}, {.bits = 11, .size = 2});
  a.op("aten::mul.Tensor", {x, noise}, {.bits = 12});
  b.call("op", "aten::native_dropout", {b.outside(1)},
         {{.bits = 12, .path = "/0"}, {.bits = 21, .path = "/1", .dtype = DType::kBool}});
  EXPECT_EQ(kernels_made(a, b), (Lines{"aten::bernoulli_.float -", "aten::div_.Scalar -",
                               "aten::mul.Tensor bits aten::native_dropout/0", "- aten::native_dropout/1"}));
}

TEST(OpKernel, OpsThatAreGivenTheSameInAnotherOrderAreFoundByWhatTheyMade) {
  // The gradients of three weights, all made of the same input.
  OpSide a, b;
  const auto gradients = [](OpSide& side, std::initializer_list<int> order, int off) {
    const auto x = side.outside(1);
    for (const int i : order) {
      const auto y = side.op("aten::bmm", {side.outside(50 + i)}, {.bits = 10 + i + off, .size = 1.0 + i});
      side.op("aten::mm", {x, y}, {.bits = 20 + i + off, .size = 5.0 + i});
    }
  };
  gradients(a, {0, 1, 2}, 0);
  gradients(b, {2, 0, 1}, 100);
  Lines lines;
  for (const std::string& line : kernels_made(a, b))
    if (line.find("::mm") != std::string::npos) lines.push_back(line);
  EXPECT_EQ(lines, (Lines{"aten::mm op aten::mm::call2", "aten::mm::call2 op aten::mm::call3",
                          "aten::mm::call3 op aten::mm"}));
}

TEST(OpKernel, WhatRoundingMovedByAHundredthIsFoundByWhatItMadeInAnotherOrder) {
  // As the backward of attention, computed from 16 bits. B did not see what its products were given.
  OpSide a, b;
  const auto product = [](OpSide& side, int number, bool rounded) {
    const Value given = rounded ? side.unrecorded() : side.outside(50 + number, {4, 8});
    side.op("aten::bmm", {given},
            {.bits = 20 + number + (rounded ? 100 : 0), .shape = {4, 8}, .size = (1 << number) * (rounded ? 1.01 : 1)});
  };
  for (const int number : {0, 1, 2}) product(a, number, false);
  for (const int number : {1, 0, 2}) product(b, number, true);
  EXPECT_EQ(kernels_made(a, b), (Lines{"aten::bmm op aten::bmm::call2", "aten::bmm::call2 op aten::bmm",
                                       "aten::bmm::call3 op aten::bmm::call3"}));
}

TEST(OpKernel, WithoutNearnessTheOrderTells) {
  for (const bool recorded : {true, false}) {
    OpSide a, b;
    const auto add = [&](OpSide& side, std::initializer_list<int> order, int off) {
      for (const int i : order) {
        const Value x = recorded ? side.outside(50 + i + off, {4, 8}) : side.unrecorded();
        side.op("aten::mm", {x}, {.bits = 20 + i + off, .shape = {4, 8}, .size = 5.0 + i});
      }
    };
    add(a, {0, 1}, 0);
    add(b, {1, 0}, 100);
    EXPECT_EQ(kernels_made(a, b), (Lines{"aten::mm op aten::mm::call2", "aten::mm::call2 op aten::mm"}));
    EXPECT_EQ(kernels_made(a, b, {.nearness = false}),
              (Lines{"aten::mm op aten::mm", "aten::mm::call2 op aten::mm::call2"}));
  }
}

}  // namespace
}  // namespace ttap::test
