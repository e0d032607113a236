#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <set>

#include "cuda/kernels/lanes/byte_values.h"
#include "cuda/kernels/lanes/lane_sketch.h"
#include "cuda/kernels/lanes/lane_stats.h"
#include "cuda/kernels/totals.h"
#include "kernel_cases.h"

// The arithmetic of the kernels, run on the host: vectors are dealt out to blocks and their threads as the kernels do,
// and what these found is added up in the kernels' order.
namespace ttap::cuda {
namespace {

using test::Bytes;

constexpr size_t kLanes = 256;

// As a warp adds up a column: each lane every 32nd row, then the lanes by halves.
template <class T, class Row, class Join>
T total_of(const std::vector<Row>& rows, T empty, T Row::*column, Join join) {
  T lanes[32];
  for (T& lane : lanes) lane = empty;
  for (size_t i = 0; i < rows.size(); ++i) lanes[i % 32] = join(lanes[i % 32], rows[i].*column);
  for (size_t step = 16; step > 0; step /= 2)
    for (size_t i = 0; i < step; ++i) lanes[i] = join(lanes[i], lanes[i + step]);
  return lanes[0];
}

LaneSums added_up(const std::vector<LaneSums>& rows) {
  const auto plus = [](auto a, auto b) { return a + b; };
  const auto smaller = [](double a, double b) { return std::fmin(a, b); };
  const auto larger = [](double a, double b) { return std::fmax(a, b); };
  LaneSums total;
  for (uint32_t LaneSums::*count : {&LaneSums::nan, &LaneSums::pos_inf, &LaneSums::neg_inf, &LaneSums::subnormals,
                                    &LaneSums::zeros, &LaneSums::finite})
    total.*count = total_of(rows, 0u, count, plus);
  total.min = total_of(rows, double{INFINITY}, &LaneSums::min, smaller);
  total.max = total_of(rows, -double{INFINITY}, &LaneSums::max, larger);
  total.min_abs_nonzero = total_of(rows, double{INFINITY}, &LaneSums::min_abs_nonzero, smaller);
  total.l1 = total_of(rows, 0.0, &LaneSums::l1, plus);
  const auto column = [&](DoubleSum LaneSums::*sums) {
    const DoubleSum found = total_of(rows, DoubleSum{}, sums, sum_of_huge);
    return std::fabs(found.high) < kOrdinary ? exact_sum(found.high, found.rest) : found;
  };
  total.sum = column(&LaneSums::sum);
  total.squares = column(&LaneSums::squares);
  return total;
}

StatsPart part_of(const LaneSums& sums, double centre) {
  return to_part({.sum = sums.sum,
                  .squares = sums.squares,
                  .l1 = sums.l1,
                  .min = sums.min,
                  .minus_max = -sums.max,
                  .min_abs_nonzero = sums.min_abs_nonzero,
                  .digest_a = 0,
                  .digest_b = 0,
                  .nan = sums.nan,
                  .pos_inf = sums.pos_inf,
                  .neg_inf = sums.neg_inf,
                  .subnormals = sums.subnormals,
                  .zeros = sums.zeros,
                  .finite = sums.finite},
                 centre);
}

Vector vector_at(const Bytes& bytes, size_t at) {
  Vector vector = {};
  if (at < bytes.size()) std::memcpy(&vector, &bytes[at], std::min<size_t>(kVectorBytes, bytes.size() - at));
  return vector;
}

Hash128 hash_of(const Bytes& bytes) {
  HashPair digests;
  for (size_t start = 0, block = 0; start < bytes.size(); start += kHashBlockBytes, ++block) {
    HashPair sums;
    const size_t size = std::min(bytes.size() - start, kHashBlockBytes);
    const size_t padded = (size + kHashStripeBytes - 1) / kHashStripeBytes * kHashStripeBytes;
    for (size_t at = 0; at < padded; at += kVectorBytes)
      add_to_hash(vector_at(bytes, start + at), kHashKeys.key, static_cast<uint32_t>(at / kVectorBytes), sums);
    const HashPair digest = hash_mix(sums, block);
    digests.a += digest.a;
    digests.b += digest.b;
  }
  const HashPair hash = hash_mix(digests, bytes.size());
  return {hash.a, hash.b};
}

template <class F, bool FEW>
using StatsOf = std::conditional_t<F::kBits == 16, PackedStats<F>, WideStats<F, FEW>>;

template <class F>
uint64_t value_at(const Bytes& bytes, size_t at) {
  uint64_t bits = 0;
  std::memcpy(&bits, &bytes[at], F::kBits / 8);
  return bits;
}

// What the kernels take for the centre of a tensor: see centre_of() of block_work.cuh.
template <class F>
double centre_of(const Bytes& bytes) {
  if (F::kBits == 16) return 0;
  constexpr size_t kSize = F::kBits / 8;
  const auto first_of = [&](size_t start) -> std::optional<double> {
    for (size_t at = start; at < start + kVectorBytes && at + kSize <= bytes.size(); at += kSize)
      if (const double value = F::value(value_at<F>(bytes, at)); std::isfinite(value)) return never_huge(value);
    return std::nullopt;
  };
  if (const auto first = first_of(0)) return *first;
  for (uint32_t number = 0; number < kCentrePlaces; ++number)
    if (const auto found = first_of(centre_place(number, bytes.size()))) return *found;
  return 0;
}

// With N vectors for a lane at a time, as the kernels take them, and the rest value by value. FEW: once for each lane.
template <class F, int N, bool FEW = false>
StatsPart stats_by_lanes(const Bytes& bytes, size_t blocks) {
  const size_t batch = kLanes * N * kVectorBytes;
  const size_t whole = bytes.size() / batch * batch;
  const double centre = centre_of<F>(bytes);
  if (FEW) blocks = whole / batch + 1;
  StatsOf<F, FEW> fresh;
  if constexpr (FEW && F::kBits != 16) fresh.centre = centre;
  std::vector<std::vector<StatsOf<F, FEW>>> lanes(blocks, std::vector<StatsOf<F, FEW>>(kLanes, fresh));
  for (size_t start = 0, number = 0; start < whole; start += batch, ++number)
    for (size_t lane = 0; lane < kLanes; ++lane) {
      Vector vectors[N];
      for (size_t i = 0; i < N; ++i) vectors[i] = vector_at(bytes, start + (lane + kLanes * i) * kVectorBytes);
      if constexpr (requires { lanes[0][0].add(vectors); })
        lanes[number % blocks][lane].add(vectors);
      else
        lanes[number % blocks][lane].add(vectors, [](int, double) {});
    }
  std::vector<ScalarStats> odd(kLanes);
  for (size_t at = whole; at < bytes.size(); at += F::kBits / 8)
    odd[at / kVectorBytes % kLanes].template add<F>(value_at<F>(bytes, at));
  std::vector<LaneSums> of_blocks;
  for (size_t block = 0; block < blocks; ++block) {
    std::vector<LaneSums> rows;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      rows.push_back(lanes[block][lane].finish(centre));
      if (block == blocks - 1) add<F::kMayBeHuge>(rows.back(), odd[lane].template finish<F>(centre));
    }
    of_blocks.push_back(added_up(rows));
  }
  return part_of(added_up(of_blocks), centre);
}

template <class F>
void expect_lanes_agree(DType dtype) {
  for (const test::KernelCase& each : test::kernel_cases())
    for (size_t count : {0, 1, 2, 3, 7, 4096, 8192, 100003, 1 << 20}) {
      const Bytes bytes = each.make(dtype, count);
      const int64_t shape[] = {static_cast<int64_t>(count)};
      const Fingerprint expected = fingerprint({bytes.data(), dtype, shape});
      const Hash128 hash = hash_of(bytes);
      for (const StatsPart& part :
           {stats_by_lanes<F, 2>(bytes, 1), stats_by_lanes<F, 4>(bytes, 50), stats_by_lanes<F, 2, true>(bytes, 0)})
        EXPECT_TRUE(test::agrees_but_for_sketch({hash, to_stats(part)}, expected))
            << each.name << ", " << dtype_name(dtype) << ", " << count << " elements";
    }
}

TEST(Lanes, agree_with_the_fingerprint_for_f16) { expect_lanes_agree<LaneF16>(DType::kF16); }
TEST(Lanes, agree_with_the_fingerprint_for_bf16) { expect_lanes_agree<LaneBF16>(DType::kBF16); }
TEST(Lanes, agree_with_the_fingerprint_for_i16) { expect_lanes_agree<LaneI16>(DType::kI16); }
TEST(Lanes, agree_with_the_fingerprint_for_u16) { expect_lanes_agree<LaneU16>(DType::kU16); }
TEST(Lanes, agree_with_the_fingerprint_for_f32) { expect_lanes_agree<LaneF32>(DType::kF32); }
TEST(Lanes, agree_with_the_fingerprint_for_c64) { expect_lanes_agree<LaneF32>(DType::kC64); }
TEST(Lanes, agree_with_the_fingerprint_for_f64) { expect_lanes_agree<LaneF64>(DType::kF64); }
TEST(Lanes, agree_with_the_fingerprint_for_i32) { expect_lanes_agree<LaneI32>(DType::kI32); }
TEST(Lanes, agree_with_the_fingerprint_for_u32) { expect_lanes_agree<LaneU32>(DType::kU32); }
TEST(Lanes, agree_with_the_fingerprint_for_i64) { expect_lanes_agree<LaneI64>(DType::kI64); }
TEST(Lanes, agree_with_the_fingerprint_for_u64) { expect_lanes_agree<LaneU64>(DType::kU64); }

TEST(Lanes, keep_the_spread_of_values_far_from_zero) {
  const auto far = [](DType dtype, double mean, double deviation) {
    return test::values_of(dtype, 300000,
                           [&](size_t i) { return test::bits_of(dtype, mean + deviation * test::about_normal(9, i)); });
  };
  const int64_t shape[] = {300000};
  const auto check = [&](DType dtype, const Bytes& bytes, const StatsPart& part) {
    EXPECT_TRUE(
        test::agrees_but_for_sketch({hash_of(bytes), to_stats(part)}, fingerprint({bytes.data(), dtype, shape})))
        << dtype_name(dtype);
  };
  const auto check_all = [&]<class F>(F, DType dtype, double mean, double deviation) {
    const Bytes bytes = far(dtype, mean, deviation);
    check(dtype, bytes, stats_by_lanes<F, 4>(bytes, 20));
    check(dtype, bytes, stats_by_lanes<F, 2, true>(bytes, 0));
  };
  check_all(LaneF64{}, DType::kF64, 1e7, 1);
  check_all(LaneF32{}, DType::kF32, 1e4, 0.1);
  check_all(LaneI64{}, DType::kI64, -3e9, 1000);
  check_all(LaneI64{}, DType::kI64, 4e18, 100000);
  check_all(LaneF64{}, DType::kF64, 1e14, 1);
  check_all(LaneU32{}, DType::kU32, 4e9, 50);
}

// Values of which each lane takes a few: 1 MiB of f32, or 2 of f64.
template <class F>
void expect_few_agree(DType dtype, const std::function<double(size_t)>& value) {
  const size_t count = size_t{1} << 18;
  const Bytes bytes = test::values_of(dtype, count, [&](size_t i) { return test::bits_of(dtype, value(i)); });
  const int64_t shape[] = {static_cast<int64_t>(count)};
  EXPECT_TRUE(test::agrees_but_for_sketch({hash_of(bytes), to_stats(stats_by_lanes<F, 2, true>(bytes, 0))},
                                          fingerprint({bytes.data(), dtype, shape})))
      << dtype_name(dtype) << ", the first " << value(0) << ", the second " << value(1);
}

// What all distances are from is the first value: the worst there can be.
TEST(Lanes, keep_the_spread_about_an_outlier_in_front) {
  const auto behind = [](double outlier, double mean) {
    return [=](size_t i) { return i == 0 ? outlier : mean + 1000 * test::about_normal(9, i); };
  };
  for (double outlier : {3e5, -5e5, 2e6, 1e9})
    for (double mean : {0., 7e4}) {
      expect_few_agree<LaneF32>(DType::kF32, behind(outlier, mean));
      expect_few_agree<LaneF64>(DType::kF64, behind(outlier, mean));
      expect_few_agree<LaneI32>(DType::kI32, behind(outlier, mean));
      expect_few_agree<LaneI64>(DType::kI64, behind(outlier, mean));
    }
  expect_few_agree<LaneF32>(DType::kF32, behind(1e30, 5));
  expect_few_agree<LaneF64>(DType::kF64, behind(-1e200, 5));
}

// What rounding takes off a distance from the first value is the same for all of them: nothing evens out.
TEST(Lanes, keep_the_mean_of_equal_values_behind_an_outlier) {
  const auto behind = [](double outlier, double value) { return [=](size_t i) { return i == 0 ? outlier : value; }; };
  expect_few_agree<LaneF64>(DType::kF64, behind(1.1e9, 0.1));
  expect_few_agree<LaneF64>(DType::kF64, behind(-7.7e15, 0.1));
  expect_few_agree<LaneF32>(DType::kF32, behind(0x1p54, 0.9));
  expect_few_agree<LaneF32>(DType::kF32, behind(1e-30, 0.9));
  expect_few_agree<LaneI64>(DType::kI64, behind(-0x1p63, 1000));
  expect_few_agree<LaneI64>(DType::kI64, behind(0x1p62, 300));
}

TEST(Lanes, keep_the_mean_behind_an_outlier_and_a_nan) {
  const auto value = [](size_t i) { return i == 0 ? 1.1e9 : i == 2 ? NAN : 0.1; };
  const Bytes bytes =
      test::values_of(DType::kF64, 300000, [&](size_t i) { return test::bits_of(DType::kF64, value(i)); });
  const int64_t shape[] = {300000};
  for (const StatsPart& part : {stats_by_lanes<LaneF64, 4>(bytes, 1), stats_by_lanes<LaneF64, 2, true>(bytes, 0)})
    EXPECT_TRUE(
        test::agrees_but_for_sketch({hash_of(bytes), to_stats(part)}, fingerprint({bytes.data(), DType::kF64, shape})));
}

// Then another value is what distances are taken from.
TEST(Lanes, keep_the_spread_behind_a_nan) {
  const int64_t shape[] = {20000};
  const auto value = [](size_t i) { return i < 3 ? NAN : 1e6 * (1 + 0x1p-31 * test::about_normal(9, i)); };
  const Bytes bytes =
      test::values_of(DType::kF64, 20000, [&](size_t i) { return test::bits_of(DType::kF64, value(i)); });
  const Fingerprint expected = fingerprint({bytes.data(), DType::kF64, shape});
  for (const StatsPart& part : {stats_by_lanes<LaneF64, 4>(bytes, 2), stats_by_lanes<LaneF64, 2, true>(bytes, 0)})
    EXPECT_TRUE(test::agrees_but_for_sketch({hash_of(bytes), to_stats(part)}, expected));
}

// Two outliers that may become what a lane takes its distances from: the mean is what is left of large sums then.
TEST(Lanes, keep_the_mean_behind_two_outliers) {
  const size_t count = 1000000;
  const int64_t shape[] = {static_cast<int64_t>(count)};
  for (const double outlier : {1.1e20, 1.1e100, 1.1e136, 1.1e200, 1.1e290})
    for (const size_t second : {1, 512, 513, 1024, 1536, 1537}) {
      const size_t first = second % 512 == 1 ? second - 1 : 0;
      const auto value = [&](size_t i) { return i == first || i == second ? outlier : 0.25 * double(i % 3); };
      const Bytes bytes =
          test::values_of(DType::kF64, count, [&](size_t i) { return test::bits_of(DType::kF64, value(i)); });
      const Fingerprint expected = fingerprint({bytes.data(), DType::kF64, shape});
      for (const StatsPart& part : {stats_by_lanes<LaneF64, 2>(bytes, 1), stats_by_lanes<LaneF64, 4>(bytes, 1)})
        EXPECT_TRUE(test::agrees_but_for_sketch({hash_of(bytes), to_stats(part)}, expected))
            << outlier << " at " << first << ", " << second;
    }
}

// A NaN leaves fewer values to choose from; the roundings of equal distances would all go the same way.
TEST(Lanes, keep_the_mean_of_equal_values_behind_an_outlier_and_a_nan) {
  const auto try_with = [&]<class F>(F*, DType dtype, double outlier, double value) {
    const size_t count = 2000000;
    const int64_t shape[] = {static_cast<int64_t>(count)};
    for (const size_t nan_at : {1, 512, 1024, 1537, 3075}) {
      const Bytes bytes = test::values_of(dtype, count, [&](size_t i) {
        return test::bits_of(dtype, i == 0 ? outlier : i == nan_at ? NAN : value);
      });
      const Fingerprint expected = fingerprint({bytes.data(), dtype, shape});
      EXPECT_TRUE(test::agrees_but_for_sketch({hash_of(bytes), to_stats(stats_by_lanes<F, 4>(bytes, 1))}, expected))
          << nan_at;
    }
  };
  try_with(static_cast<LaneF32*>(nullptr), DType::kF32, 1909028224, 0.54027354717254639);
  try_with(static_cast<LaneF32*>(nullptr), DType::kF32, 238610672, 0.15581487119197845);
  try_with(static_cast<LaneF64*>(nullptr), DType::kF64, 1806023117348466, 0.87500789245557498);
}

TEST(Lanes, keep_the_spread_of_rows_that_begin_with_nan) {
  for (const size_t columns : {64, 4096}) {
    const size_t count = 64 * 4096;
    const int64_t shape[] = {static_cast<int64_t>(count)};
    const Bytes bytes = test::values_of(DType::kF64, count, [&](size_t i) {
      return test::bits_of(DType::kF64, i % columns < columns / 8 ? NAN : 1e9 + 1e-3 * test::about_normal(9, i));
    });
    const Fingerprint expected = fingerprint({bytes.data(), DType::kF64, shape});
    for (const StatsPart& part : {stats_by_lanes<LaneF64, 2, true>(bytes, 1), stats_by_lanes<LaneF64, 4>(bytes, 2)})
      EXPECT_TRUE(test::agrees_but_for_sketch({hash_of(bytes), to_stats(part)}, expected)) << columns;
  }
}

// All of a short tensor, else places all over it.
TEST(Lanes, look_for_a_centre_within_the_tensor) {
  for (const uint64_t bytes : {16, 100, 32768, 32784, 1000000, 1 << 30}) {
    std::set<uint64_t> places;
    for (uint32_t number = 0; number < kCentrePlaces; ++number) places.insert(centre_place(number, bytes));
    const uint64_t vectors = (bytes + 15) / 16;
    if (vectors <= kCentrePlaces)
      EXPECT_EQ(std::ranges::count_if(places, [&](uint64_t place) { return place < bytes; }), vectors);
    else
      EXPECT_TRUE(places.size() > kCentrePlaces * 3 / 4 && *places.rbegin() < bytes) << bytes;  // some meet
  }
}

TEST(Lanes, take_values_whose_squares_are_beyond_double) {
  const int64_t shape[] = {20000};
  for (const double second : {1e200, -1e200}) {
    const Bytes bytes = test::values_of(
        DType::kF64, 20000, [&](size_t i) { return test::bits_of(DType::kF64, i % 2 == 0 ? 1e200 : second); });
    const Fingerprint expected = fingerprint({bytes.data(), DType::kF64, shape});
    for (const StatsPart& part : {stats_by_lanes<LaneF64, 4>(bytes, 2), stats_by_lanes<LaneF64, 2, true>(bytes, 0)})
      EXPECT_TRUE(test::agrees_but_for_sketch({hash_of(bytes), to_stats(part)}, expected)) << second;
  }
}

// The mean is a double, though sums on the way to it are none.
TEST(Lanes, take_values_near_the_largest_double) {
  for (const test::KernelCase& each : test::huge_cases())
    for (size_t count : {1, 2, 3, 1024, 2048, 20000, 300001}) {
      const Bytes bytes = each.make(DType::kF64, count);
      const int64_t shape[] = {static_cast<int64_t>(count)};
      const Fingerprint expected = fingerprint({bytes.data(), DType::kF64, shape});
      ASSERT_TRUE(std::isfinite(expected.stats.mean));
      for (const StatsPart& part : {stats_by_lanes<LaneF64, 2>(bytes, 1), stats_by_lanes<LaneF64, 4>(bytes, 3),
                                    stats_by_lanes<LaneF64, 2, true>(bytes, 0)})
        EXPECT_TRUE(test::agrees_but_for_sketch({hash_of(bytes), to_stats(part)}, expected))
            << each.name << ", " << count;
    }
}

// The sum is a double, though distances from such a value, or the number of a lane's values times one, would be none.
TEST(Lanes, take_one_value_near_the_largest_double) {
  for (const size_t count : {size_t{126}, size_t{20000}})
    for (const size_t place : {0, 8, 9, 101})
      for (const double other : {1e10, 1e307 / 20000}) {
        const auto value = [&](size_t i) { return test::bits_of(DType::kF64, i == place ? -1.7e308 : other); };
        const Bytes bytes = test::values_of(DType::kF64, count, value);
        const int64_t shape[] = {static_cast<int64_t>(count)};
        const Fingerprint expected = fingerprint({bytes.data(), DType::kF64, shape});
        ASSERT_TRUE(std::isfinite(expected.stats.mean));
        for (const StatsPart& part : {stats_by_lanes<LaneF64, 4>(bytes, 2), stats_by_lanes<LaneF64, 2, true>(bytes, 0)})
          EXPECT_TRUE(test::agrees_but_for_sketch({hash_of(bytes), to_stats(part)}, expected)) << count << " " << place;
      }
}

TEST(ByteValues, are_those_of_the_formats) {
  constexpr ByteValues kValues = make_byte_values();
  Bytes codes(256);
  for (size_t code = 0; code < codes.size(); ++code) codes[code] = static_cast<std::byte>(code);
  const int64_t shape[] = {256};
  for (DType dtype : kAllDTypes) {
    if (size_of(dtype) != 1) continue;
    const auto format = static_cast<size_t>(dtype);
    uint64_t subnormals = 0;
    for (size_t code = 0; code < codes.size(); ++code)
      for (uint32_t part = 0; part < dtype_info(dtype).values; ++part) {
        const double value = kValues.of[format][part == 0 ? code : code >> 4];
        EXPECT_TRUE(test::same(value, value_of(dtype, &codes[code], static_cast<int>(part))))
            << dtype_name(dtype) << code;
        subnormals += value != 0 && std::fabs(value) < kValues.smallest_normal[format] ? 1 : 0;
      }
    EXPECT_EQ(subnormals, fingerprint({codes.data(), dtype, shape}).stats.subnormals) << dtype_name(dtype);
  }
}

TEST(HugeSums, are_handed_on_in_units_where_a_double_cannot_hold_them) {
  const DoubleSum most{std::numeric_limits<double>::max(), 0};
  const DoubleSum twice = sum_of_huge(most, most);
  EXPECT_TRUE(is_in_units(twice));
  EXPECT_EQ(twice.high, std::ldexp(most.high, 1 - 64));
  const DoubleSum once = sum_of_huge(twice, -most);
  EXPECT_EQ(in_units(once).high, std::ldexp(most.high, -64));
  const DoubleSum none = sum_of_huge(sum_of_huge(twice, -most), sum_of_huge(-most, {0x1p990, 0}));
  EXPECT_FALSE(is_in_units(none));
  EXPECT_EQ(none.high + none.rest, 0x1p990);
}

TEST(DoubleSums, keep_what_doubles_lose) {
  DoubleSum sum;
  for (double value : {1e30, 1.0, -1e30, 1e-10}) sum = sum + DoubleSum{value, 0};
  EXPECT_EQ(sum.high + sum.rest, 1 + 1e-10);
  const DoubleSum product = DoubleSum{1 + 0x1p-40, 0} * DoubleSum{1 - 0x1p-40, 0};
  EXPECT_EQ((product.high - 1) + product.rest, -0x1p-80);
}

// ---- sketches ----

// As the kernels deal out a tensor's bytes: lane by lane, and the cells of some lines to their buckets. `together` of
// those: 16 as of a pair of hash blocks, in steps of 4, or 2 or 1.
template <class F>
Sketch sketch_by_lanes(const Bytes& bytes, uint32_t together) {
  Sketch buckets = {};
  constexpr uint32_t kValues = LaneSketch<F>::kValues;
  for (uint64_t start = 0; start < bytes.size(); start += together * kSketchLineBytes) {
    const BlockInUnit<F> block(start / kHashBlockBytes);
    const SketchUnit unit = sketch_unit(block.unit);
    const auto line = static_cast<uint32_t>(block.line + start / kSketchLineBytes % kSketchBlockLines);
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const VectorSigns<kValues> signs(unit.seed, lane, line);
      LaneSketch<F> sketch;
      const auto add = [&](const VectorSigns<kValues>& from, uint32_t first, uint32_t further) {
        const uint64_t at = start + (first + further) * kSketchLineBytes + lane * kVectorBytes;
        if (at >= bytes.size()) return;
        Vector vector = {};
        std::memcpy(&vector, bytes.data() + at, std::min<size_t>(sizeof vector, bytes.size() - at));
        sketch.template add<true>(vector, further, LaneSketch<F>::sign_of_line(from, further));
      };
      if (together == 16) {
        for (const uint32_t round : {0, 4}) {
          for (const uint32_t further : {0, 1, 8, 9, 2, 3, 10, 11}) add(signs.after(round), round, further);
          sketch.skip_four_lines();
        }
      } else {
        for (uint32_t further = 0; further < together; ++further) add(signs, 0, further);
      }
      for (uint32_t place = 0; place < LaneSketch<F>::kCells; ++place)
        buckets[(lane * kValues ^ place) % kSketchBuckets ^ unit.flip ^ signs.turn] += sketch.signed_cell(place, signs);
    }
  }
  return buckets;
}

template <class F>
void expect_sketch_of_cpu(DType dtype) {
  for (const size_t size : {16, 512, 1000, 4096, 8192, 12288, 50000}) {
    Bytes bytes(size);
    for (size_t i = 0; i + 8 <= size; i += 8) {
      const auto value = static_cast<float>(std::sin(static_cast<double>(i)));
      const double wide = value;
      if (size_of(dtype) == 8)
        std::memcpy(&bytes[i], &wide, 8);
      else
        for (size_t j = 0; j < 2; ++j) std::memcpy(&bytes[i + 4 * j], &value, 4);
    }
    const int64_t shape[] = {static_cast<int64_t>(size / size_of(dtype))};
    const Sketch expected = fingerprint({bytes.data(), dtype, shape}).sketch;
    for (const uint32_t together : {16, 2, 1})
      EXPECT_LE(sketched_distance(sketch_by_lanes<F>(bytes, together), expected),
                1e-6 * sketched_distance(expected, {}))
          << dtype_name(dtype) << " " << size << " " << together;
  }
}

TEST(LaneSketch, is_that_of_the_cpu) {
  expect_sketch_of_cpu<LaneF16>(DType::kF16);
  expect_sketch_of_cpu<LaneBF16>(DType::kBF16);
  expect_sketch_of_cpu<LaneF32>(DType::kF32);
  expect_sketch_of_cpu<LaneF64>(DType::kF64);
}

}  // namespace
}  // namespace ttap::cuda
