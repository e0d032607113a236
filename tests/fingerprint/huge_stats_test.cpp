#include <functional>
#include <limits>

#include "reference_stats.h"

// Doubles so large that their sums, or those of their squares, may be more than a double can hold.
namespace ttap {
namespace {

using test::bytes_of, test::expect_agreement, test::reference, test::stats_of;

test::Bytes values_of(size_t count, const std::function<double(size_t)>& value) {
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = value(i);
  return bytes_of(values);
}

TEST(HugeStats, of_a_pair_whose_squares_are_beyond_double_are_infinite) {
  for (SimdPath path : every_path())
    EXPECT_EQ(stats_of(bytes_of(std::vector<double>{1.1e200, 1.3e200}), DType::kF64, {1, path}).std, INFINITY);
}

// The mean is a double, whatever its values add up to on the way to it.
TEST(HugeStats, have_a_mean) {
  constexpr double kMost = std::numeric_limits<double>::max();
  const auto expect = [](const std::string& what, size_t count, const std::function<double(size_t)>& value) {
    const test::Bytes bytes = values_of(count, value);
    ASSERT_TRUE(std::isfinite(reference(bytes, DType::kF64).mean));
    expect_agreement(bytes, DType::kF64, what);
  };
  const auto random = [](size_t i) { return kMost * (2 * std::fmod(double(i * i) * 0.6180339887, 1.0) - 1); };
  for (size_t count : {1, 2, 3, 5, 64, 511, 512, 513, 5000, 300001}) {
    expect("the largest", count, [](size_t) { return kMost; });
    expect("nearly the largest", count, [](size_t i) { return i % 3 == 0 ? -kMost : -0.9 * kMost; });
    expect("of both signs", count, [](size_t i) { return i % 2 == 0 ? kMost : -kMost; });
    expect("halves of both signs", count, [&](size_t i) { return i < count / 2 ? kMost : -kMost; });
    expect("blocks of both signs", count, [](size_t i) { return i / 512 % 2 == 0 ? kMost : -kMost; });
    expect("small ones behind", count, [](size_t i) { return i < 512 ? kMost : 1e-3; });
    expect("with NaN", count, [&](size_t i) { return i % 5 == 1 ? NAN : random(i); });
    expect("random", count, random);
  }
}

// The squares add up to a double, though others on the way to it may not.
TEST(HugeStats, keep_a_spread_whose_squares_are_just_within_double) {
  const auto expect = [](const std::string& what, size_t count, const std::function<double(size_t)>& value) {
    const test::Bytes bytes = values_of(count, value);
    const Stats stats = reference(bytes, DType::kF64);
    ASSERT_TRUE(std::isfinite(stats.std) && stats.std > 1e148) << what;
    expect_agreement(bytes, DType::kF64, what);
  };
  for (size_t count : {2, 3, 64, 511, 512, 1024, 5000, 300001}) {
    const double most = 4e153 / std::sqrt(static_cast<double>(count));
    expect("one in front", count, [](size_t i) { return i == 0 ? 7e153 : 0.25 * double(i % 3); });
    expect("one at the end", count, [&](size_t i) { return i == count - 1 ? -7e153 : 0.25 * double(i % 3); });
    expect("every other", count, [&](size_t i) { return i % 2 == 0 ? 2 * most : 0; });
    expect("a second half", count, [&](size_t i) { return i < count / 2 ? 0.0 : i % 2 == 1 ? 2 * most : 0; });
    expect("two levels", count, [&](size_t i) { return i < count / 2 ? most : -most; });
    // m2 is 1e308 here: little is left to 1.8e308.
    const double near_limit = 1e154 / std::sqrt(static_cast<double>(count));
    expect("two levels near the limit", count, [&](size_t i) { return i < count / 2 ? near_limit : -near_limit; });
    expect("a level near the limit", count, [&](size_t i) { return i < count / 2 ? 2 * near_limit : 0; });
    expect("one unlike the others", count, [&](size_t i) { return i == count - 1 ? 0x1p560 + 0x1p508 : 0x1p560; });
    expect("far from zero", count, [&](size_t i) { return (i % 2 == 0 ? 100 : 101) * (most / 4); });
  }
}

}  // namespace
}  // namespace ttap
