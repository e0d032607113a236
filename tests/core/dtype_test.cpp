#include "ttap/dtype.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace ttap {
namespace {

TEST(DType, NumbersNamesAndSizesAreThoseOfTheFormat) {
  // Written out a second time on purpose: a file of last year must read the same next year.
  const std::vector<std::tuple<int, std::string_view, size_t, int>> table = {
      {1, "bool", 1, 1},         {2, "u8", 1, 1},           {3, "u16", 2, 1},          {4, "u32", 4, 1},
      {5, "u64", 8, 1},          {6, "i8", 1, 1},           {7, "i16", 2, 1},          {8, "i32", 4, 1},
      {9, "i64", 8, 1},          {10, "f16", 2, 1},         {11, "bf16", 2, 1},        {12, "f32", 4, 1},
      {13, "f64", 8, 1},         {14, "c64", 8, 2},         {15, "c128", 16, 2},       {16, "f8_e4m3fn", 1, 1},
      {17, "f8_e5m2", 1, 1},     {18, "f8_e4m3fnuz", 1, 1}, {19, "f8_e5m2fnuz", 1, 1}, {20, "f8_e8m0fnu", 1, 1},
      {21, "f4_e2m1fn_x2", 1, 2}};
  ASSERT_EQ(table.size(), std::size(kAllDTypes));
  for (const auto& [number, text, size, values] : table) {
    const auto dtype = dtype_from_number(static_cast<uint8_t>(number));
    ASSERT_TRUE(dtype) << number;
    EXPECT_EQ(static_cast<int>(*dtype), number);
    EXPECT_EQ(dtype_name(*dtype), text);
    EXPECT_EQ(size_of(*dtype), size);
    EXPECT_EQ(dtype_info(*dtype).values, values);
    EXPECT_EQ(dtype_from_name(text), dtype);
  }
}

TEST(DType, TheListHoldsEachOnce) {
  const std::set<DType> distinct(std::begin(kAllDTypes), std::end(kAllDTypes));
  EXPECT_EQ(distinct.size(), std::size(kAllDTypes));
}

TEST(DType, KindsFollowTheNames) {
  for (DType dtype : kAllDTypes) {
    const DTypeKind expected = dtype_name(dtype) == "bool"          ? DTypeKind::kBool
                               : dtype_name(dtype).starts_with('u') ? DTypeKind::kUnsigned
                               : dtype_name(dtype).starts_with('i') ? DTypeKind::kSigned
                               : dtype_name(dtype).starts_with('c') ? DTypeKind::kComplex
                                                                    : DTypeKind::kFloat;
    EXPECT_EQ(dtype_info(dtype).kind, expected) << dtype_name(dtype);
  }
}

TEST(DType, UnassignedNumbersAndUnknownNamesGiveNothing) {
  EXPECT_FALSE(dtype_from_number(0));
  for (int number = 22; number < 256; ++number) EXPECT_FALSE(dtype_from_number(static_cast<uint8_t>(number)));
  for (std::string_view text : {"", "F32", "f32 ", "float32", "f8"}) EXPECT_FALSE(dtype_from_name(text)) << text;
}

TEST(DTypeDeathTest, AskingAboutAnUnassignedOneIsABugOfOurs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(dtype_info(static_cast<DType>(0)), "internal check failed");
  EXPECT_DEATH(dtype_info(static_cast<DType>(22)), "internal check failed");
}

}  // namespace
}  // namespace ttap
