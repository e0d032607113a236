#include "ttap/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace ttap {
namespace {

Result<int> half(int number) {
  if (number % 2 != 0) return Error{ErrorCode::kInvalidArgument, "odd"};
  return number / 2;
}

Result<int> quarter(int number) {
  TTAP_ASSIGN(const int once, half(number));
  TTAP_ASSIGN(const int twice, half(once));
  return twice;
}

Status even(int number) {
  TTAP_TRY(half(number));
  return {};
}

TEST(Result, HoldsAValueOrAnError) {
  const auto good = half(4);
  ASSERT_TRUE(good);
  EXPECT_EQ(*good, 2);
  const auto bad = half(3);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().message, "odd");
}

TEST(Result, CarriesWhatCanOnlyBeMoved) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 5);
}

TEST(Result, CanHoldAnErrorAsAnErrorOnly) {
  EXPECT_TRUE(Status().ok());
  EXPECT_FALSE(Status(Error{}).ok());
}

TEST(Result, TheFirstErrorIsHandedUp) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_FALSE(quarter(6).ok());
  EXPECT_FALSE(quarter(5).ok());
  EXPECT_TRUE(even(2).ok());
  EXPECT_EQ(even(1).error().message, "odd");
}

TEST(ResultDeathTest, ReadingTheWrongSideIsABugOfOurs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH((void)half(1).value(), "internal check failed.*please report");
  EXPECT_DEATH((void)half(2).error(), "internal check failed");
  EXPECT_DEATH((void)even(2).error(), "internal check failed");
}

TEST(Error, DescribesWhatWhereAndWhatToDo) {
  EXPECT_EQ((Error{ErrorCode::kIo, "no luck"}.describe()), "no luck");
  const Error full{.code = ErrorCode::kCorrupt,
                   .message = "bad checksum",
                   .path = "run/a.ttap",
                   .offset = 64,
                   .hint = "copy it again"};
  EXPECT_EQ(full.describe(), "run/a.ttap: bad checksum (at byte 64); copy it again");
  const Error start{.code = ErrorCode::kCorrupt, .message = "bad magic", .offset = 0};
  EXPECT_EQ(start.describe(), "bad magic (at byte 0)");
}

TEST(Error, KeepsTheFirstPathItWasGiven) {
  const Error error = Error{ErrorCode::kIo, "no luck"}.with_path("inner").with_path("outer");
  EXPECT_EQ(error.path, "inner");
}

TEST(Error, EveryCodeHasANameOfItsOwn) {
  std::set<std::string> names;
  for (int code = 0; code <= static_cast<int>(ErrorCode::kNotRecorded); ++code)
    EXPECT_TRUE(names.insert(to_string(static_cast<ErrorCode>(code))).second) << code;
  EXPECT_EQ(names.count("unknown error"), 0u);
}

}  // namespace
}  // namespace ttap
