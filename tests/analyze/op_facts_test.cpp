#include "analyze/ops/op_facts.h"

#include <gtest/gtest.h>

namespace ttap {
namespace {

TEST(OpFacts, KnowsAnOpInEachOfItsForms) {
  EXPECT_EQ(plain_op("aten::add_.Tensor"), "add");
  EXPECT_EQ(plain_op("aten::log.out"), "log");
  EXPECT_TRUE(is_view_op("aten::slice.Tensor"));
  EXPECT_FALSE(is_view_op("aten::clone"));
  EXPECT_TRUE(leaves_uninitialised("aten::new_empty_strided"));
  EXPECT_FALSE(leaves_uninitialised("aten::zeros"));
  EXPECT_TRUE(overwrites_what_it_writes("aten::add.out"));
  EXPECT_TRUE(overwrites_what_it_writes("aten::sum.IntList_out"));
  EXPECT_TRUE(overwrites_what_it_writes("aten::fill_.Scalar"));
  EXPECT_FALSE(overwrites_what_it_writes("aten::add_.Tensor"));
}

TEST(OpFacts, KnowsWhatDrawsRandomNumbers) {
  for (const char* op : {"aten::bernoulli_.float", "aten::native_dropout", "aten::randn_like", "aten::normal_",
                         "cpp::cpp_fused_native_dropout_relu_threshold_backward_0", "triton::triton_poi_fused_rand_0"})
    EXPECT_TRUE(draws_random_numbers(op)) << op;
  for (const char* op : {"aten::native_dropout_backward", "aten::normalize", "aten::native_layer_norm",
                         "aten::add.rand", "cpp::cpp_fused_native_dropout_backward_sum_0",
                         "triton::triton_poi_fused_brand_0", "mine::rand_of_something", ""})
    EXPECT_FALSE(draws_random_numbers(op)) << op;
}

TEST(OpFacts, KnowsWhatDependsOnNoArgument) {
  for (const char* op : {"aten::ones_like", "aten::zeros", "aten::full", "aten::arange.start", "aten::randn_like",
                         "aten::new_zeros", "aten::empty.memory_format", "aten::scalar_tensor"})
    EXPECT_TRUE(makes_from_nothing(op)) << op;
  for (const char* op : {"aten::div.Tensor", "aten::bernoulli", "aten::clone", "aten::cumsum", "aten::native_dropout"})
    EXPECT_FALSE(makes_from_nothing(op)) << op;
}

TEST(OpFacts, KnowsWhatExchangesValuesWithOtherProcesses) {
  EXPECT_TRUE(is_collective("c10d::allreduce_"));
  EXPECT_TRUE(is_collective("_c10d_functional::wait_tensor"));
  EXPECT_FALSE(is_collective("aten::sum"));
  EXPECT_FALSE(is_collective("c10d"));
}

TEST(OpFacts, FindsLiteralsThatAreNotFinite) {
  EXPECT_TRUE(nonfinite_literals("[2, 3], -inf, dtype=torch.float32").inf);
  EXPECT_TRUE(nonfinite_literals("%0, %1, inf").inf);
  EXPECT_TRUE(nonfinite_literals("[nan, 1.0]").nan);
  EXPECT_FALSE(nonfinite_literals("%0, nan=0.0, posinf=None").nan);
  EXPECT_FALSE(nonfinite_literals("'inf', \"it's nan\", infimum, x.inf").inf);
  EXPECT_FALSE(nonfinite_literals("'inf', \"it's nan\", infimum, x.inf").nan);
  EXPECT_FALSE(nonfinite_literals("'open").inf);
}

}  // namespace
}  // namespace ttap
