#include "core/op_name.h"

#include <gtest/gtest.h>

#include <string>

namespace ttap {
namespace {

TEST(OpName, SplitsIntoScopeAndOperator) {
  EXPECT_EQ(split_op_name("aten::relu"), (OpName{"", false, "aten::relu"}));
  EXPECT_EQ(split_op_name("a.b.0:aten::add.Tensor"), (OpName{"a.b.0", false, "aten::add.Tensor"}));
  EXPECT_EQ(split_op_name("a.b.0:backward:aten::mm"), (OpName{"a.b.0", true, "aten::mm"}));
  EXPECT_EQ(split_op_name("backward:aten::mm"), (OpName{"", true, "aten::mm"}));
  EXPECT_EQ(split_op_name("m:triton::k_0"), (OpName{"m", false, "triton::k_0"}));
}

TEST(OpName, TakesANameWithoutALibraryForAnOperator) {
  EXPECT_EQ(split_op_name("encoder.layer.0"), (OpName{"", false, "encoder.layer.0"}));
  EXPECT_EQ(split_op_name("::x"), (OpName{"", false, "::x"}));
  EXPECT_EQ(split_op_name(""), (OpName{"", false, ""}));
}

TEST(OpName, JoinsWhatItSplits) {
  for (const std::string name : {"aten::relu", "a.b:aten::mm.out", "a:backward:aten::mm", "backward:aten::mm"})
    EXPECT_EQ(join_op_name(split_op_name(name)), name);
}

TEST(OpName, SplitsAnOperator) {
  const OperatorParts parts = split_operator("aten::add.Tensor");
  EXPECT_EQ(parts.library, "aten");
  EXPECT_EQ(parts.name, "add");
  EXPECT_EQ(parts.overload, "Tensor");
  EXPECT_EQ(split_operator("triton::k_0").overload, "");
}

}  // namespace
}  // namespace ttap
