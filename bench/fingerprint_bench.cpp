// How fast a fingerprint is taken, per dtype and vector path, and how that compares with memcpy of the same bytes on
// one thread. The counter `of_memcpy` is the ratio; the target is 0.5 or more.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "ttap/fingerprint.h"

namespace ttap {
namespace {

constexpr size_t kLargeBytes = size_t{64} << 20;

template <class T, class Make>
void fill(std::vector<std::byte>& bytes, Make make) {
  for (size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    const T value = make();
    std::memcpy(bytes.data() + i, &value, sizeof value);
  }
}

// Activations as a model makes them: normally distributed floats, small integers, any byte that is not a NaN.
std::vector<std::byte> sample(DType dtype, size_t size) {
  std::vector<std::byte> bytes(size);
  std::minstd_rand random(1);
  // A short period is enough, and drawing 64 MiB of normal numbers would take longer than measuring.
  std::vector<float> normal(4099);
  std::normal_distribution<float> distribution;
  for (float& value : normal) value = distribution(random);
  size_t next = 0;
  const auto draw = [&] { return normal[next++ % normal.size()]; };
  const auto bits = [&] {
    const float value = draw();
    uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    return word;
  };
  switch (dtype) {
    case DType::kF32:
    case DType::kC64: fill<float>(bytes, draw); break;
    case DType::kF64:
    case DType::kC128: fill<double>(bytes, [&] { return static_cast<double>(draw()); }); break;
    case DType::kBF16: fill<uint16_t>(bytes, [&] { return static_cast<uint16_t>(bits() >> 16); }); break;
    case DType::kF16:
      // Sign, exponent and mantissa of a float between 2^−14 and 2^15, shortened.
      fill<uint16_t>(bytes, [&] {
        const uint32_t word = bits();
        return static_cast<uint16_t>(((word >> 16) & 0x8000) | ((((word >> 23) & 0xFF) - 112) << 10 & 0x7C00) |
                                     ((word >> 13) & 0x3FF));
      });
      break;
    default: fill<uint8_t>(bytes, [&] { return static_cast<uint8_t>(random() >> 8 & 0x7B); }); break;
  }
  return bytes;
}

// On one thread its processor time, which neighbours on a busy machine do not take; on several, real time.
double seconds(unsigned threads) {
  timespec time;
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The best of several runs over `bytes`, in bytes a second.
double memcpy_rate(const std::vector<std::byte>& bytes) {
  std::vector<std::byte> target(bytes.size());
  double best = 0;
  for (int run = 0; run < 20; ++run) {
    const double start = seconds(1);
    std::memcpy(target.data(), bytes.data(), bytes.size());
    benchmark::DoNotOptimize(target.data());
    benchmark::ClobberMemory();
    best = std::max(best, static_cast<double>(bytes.size()) / (seconds(1) - start));
  }
  return best;
}

void large(benchmark::State& state, DType dtype, FingerprintOptions options) {
  const auto bytes = sample(dtype, kLargeBytes);
  const int64_t shape[] = {static_cast<int64_t>(bytes.size() / size_of(dtype))};
  const double copied = memcpy_rate(bytes);
  double best = 0;
  for (auto _ : state) {
    const double start = seconds(options.threads);
    benchmark::DoNotOptimize(fingerprint({bytes.data(), dtype, shape}, options));
    best = std::max(best, static_cast<double>(bytes.size()) / (seconds(options.threads) - start));
  }
  state.counters["memcpy_GB/s"] = copied / 1e9;
  state.counters["GB/s"] = best / 1e9;
  state.counters["of_memcpy"] = best / copied;
}

void small(benchmark::State& state, DType dtype) {
  const auto bytes = sample(dtype, static_cast<size_t>(state.range(0)));
  const int64_t shape[] = {static_cast<int64_t>(bytes.size() / size_of(dtype))};
  for (auto _ : state) benchmark::DoNotOptimize(fingerprint({bytes.data(), dtype, shape}));
}

// A column-major matrix: every element is gathered.
void transposed(benchmark::State& state) {
  constexpr int64_t kRows = 4096;
  const auto bytes = sample(DType::kF32, kRows * kRows * 4);
  const int64_t shape[] = {kRows, kRows};
  const int64_t strides[] = {1, kRows};
  for (auto _ : state) benchmark::DoNotOptimize(fingerprint({bytes.data(), DType::kF32, shape, strides}));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * kRows * kRows * 4);
}

void add_all() {
  for (DType dtype : kAllDTypes) {
    const std::string base = std::string(dtype_name(dtype));
    benchmark::RegisterBenchmark(("large/" + base).c_str(), large, dtype, FingerprintOptions{})
        ->Unit(benchmark::kMillisecond);
  }
  for (DType dtype : {DType::kBF16, DType::kF32, DType::kF64, DType::kF8E4M3FN}) {
    const std::string base = std::string(dtype_name(dtype));
    if (simd_path_name(SimdPath::kAvx2) == "avx2")
      benchmark::RegisterBenchmark(("avx2/" + base).c_str(), large, dtype, FingerprintOptions{1, SimdPath::kAvx2})
          ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("scalar/" + base).c_str(), large, dtype, FingerprintOptions{1, SimdPath::kScalar})
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("threads2/" + base).c_str(), large, dtype, FingerprintOptions{2, SimdPath::kBest})
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("small/" + base).c_str(), small, dtype)->Arg(64)->Arg(1024)->Arg(1000)->Arg(16384);
  }
  benchmark::RegisterBenchmark("transposed/f32", transposed)->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace ttap

int main(int argc, char** argv) {
  ttap::add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
