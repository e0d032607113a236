#include <gtest/gtest.h>

#include <cstring>

#include "cuda/kernels/lane_stats.h"
#include "cuda/kernels/many_parts.h"
#include "kernel_cases.h"

// The arithmetic of the kernels' lanes, run on the host: vectors are dealt out as a block deals them to its threads.
namespace ttap::cuda {
namespace {

using test::Bytes;

constexpr size_t kLanes = 256;

StatsPart merged(std::vector<StatsPart> parts) {
  StatsPart total;
  double all = 0;
  for (const StatsPart& part : parts) all += static_cast<double>(part.finite);
  double mean = 0;
  for (const StatsPart& part : parts) mean += share_of_mean(part, all);
  Spread spread;
  for (const StatsPart& part : parts) {
    merge(total, part);
    const Spread mine = spread_around(part, mean);
    spread.distance += mine.distance;
    spread.m2 += mine.m2;
  }
  if (all != 0) set_spread(total, mean, spread, all);
  return total;
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

template <class F>
using StatsOf = std::conditional_t<F::kBits == 16, PackedStats<F>, WideStats<F>>;

// With N vectors for a lane at a time, as the kernels take them, and the rest value by value.
template <class F, int N>
StatsPart stats_by_lanes(const Bytes& bytes) {
  std::vector<StatsOf<F>> lanes(kLanes);
  const size_t batch = kLanes * N * kVectorBytes;
  const size_t whole = bytes.size() / batch * batch;
  for (size_t start = 0; start < whole; start += batch)
    for (size_t lane = 0; lane < kLanes; ++lane) {
      Vector vectors[N];
      for (size_t i = 0; i < N; ++i) vectors[i] = vector_at(bytes, start + (lane + kLanes * i) * kVectorBytes);
      lanes[lane].add(vectors);
    }
  std::vector<ScalarStats> odd(kLanes);
  for (size_t at = whole; at < bytes.size(); at += F::kBits / 8) {
    uint64_t bits = 0;
    std::memcpy(&bits, &bytes[at], F::kBits / 8);
    odd[at / kVectorBytes % kLanes].template add<F>(bits);
  }
  std::vector<StatsPart> parts(kLanes);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    parts[lane] = lanes[lane].finish();
    merge(parts[lane], odd[lane].finish());
  }
  return merged(parts);
}

template <class F>
void expect_lanes_agree(DType dtype) {
  for (const test::KernelCase& each : test::kernel_cases())
    for (size_t count : {0, 1, 2, 3, 7, 4096, 8192, 100003, 1 << 20}) {
      const Bytes bytes = each.make(dtype, count);
      const int64_t shape[] = {static_cast<int64_t>(count)};
      const Fingerprint expected = fingerprint({bytes.data(), dtype, shape});
      for (const StatsPart& part : {stats_by_lanes<F, 2>(bytes), stats_by_lanes<F, 4>(bytes)})
        EXPECT_TRUE(test::agrees({hash_of(bytes), to_stats(part)}, expected))
            << each.name << ", " << name(dtype) << ", " << count << " elements";
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
    EXPECT_TRUE(test::agrees({hash_of(bytes), to_stats(part)}, fingerprint({bytes.data(), dtype, shape})))
        << name(dtype);
  };
  Bytes bytes = far(DType::kF64, 1e7, 1);
  check(DType::kF64, bytes, stats_by_lanes<LaneF64, 4>(bytes));
  bytes = far(DType::kF32, 1e4, 0.1);
  check(DType::kF32, bytes, stats_by_lanes<LaneF32, 4>(bytes));
  bytes = far(DType::kI64, -3e9, 1000);
  check(DType::kI64, bytes, stats_by_lanes<LaneI64, 4>(bytes));
  bytes = far(DType::kU32, 4e9, 50);
  check(DType::kU32, bytes, stats_by_lanes<LaneU32, 4>(bytes));
}

}  // namespace
}  // namespace ttap::cuda
