// How fast two tensors are compared, all measures, in pairs a second on one thread; a target is 130 million of f32.
#include <benchmark/benchmark.h>

#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "analyze/compare/measures.h"

namespace ttap {
namespace {

constexpr int64_t kPairs = int64_t{1} << 24;

// How far the two tensors are apart: `kSame` not at all, `kClose` the last bits of every value, `kFar` a third of the
// values by a good part. `kMasked`: not at all, and half of both is −inf.
enum class Apart { kSame, kClose, kFar, kMasked };

template <class T, class Make>
std::vector<std::byte> fill(Make make) {
  std::vector<std::byte> bytes(kPairs * sizeof(T));
  for (size_t i = 0; i < static_cast<size_t>(kPairs); ++i) {
    const auto value = static_cast<T>(make(i));
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  }
  return bytes;
}

// Normally distributed values, or noise beside them.
std::vector<std::byte> sample(DType dtype, Apart apart) {
  std::minstd_rand random(1);
  std::vector<double> normal(4099), noise(65537);
  std::normal_distribution<double> distribution;
  for (double& value : normal) value = distribution(random);
  for (double& value : noise) value = distribution(random);
  const double unit = dtype == DType::kF64 ? 1e-15 : dtype == DType::kF32 ? 1e-6 : 1e-2;
  const auto value = [&](size_t i) {
    const double x = normal[i % normal.size()];
    if (apart == Apart::kSame) return x;
    if (apart == Apart::kMasked) return i % 4096 > 2048 ? -std::numeric_limits<double>::infinity() : x;
    const double e = noise[i % noise.size()];
    if (apart == Apart::kClose) return x + x * unit * e;
    return i % 3 == 0 ? x + 0.1 * e : x;
  };
  switch (dtype) {
    case DType::kF64: return fill<double>(value);
    case DType::kF32: return fill<float>(value);
    case DType::kBF16:
      return fill<uint16_t>([&](size_t i) {
        const auto x = static_cast<float>(value(i));
        uint32_t bits;
        std::memcpy(&bits, &x, sizeof bits);
        return bits >> 16;
      });
    case DType::kF16: return fill<uint16_t>([&](size_t i) { return static_cast<uint32_t>(0x3C00 + 256 * value(i)); });
    case DType::kI64: return fill<int64_t>([&](size_t i) { return 1e6 * value(i); });
    case DType::kI32: return fill<int32_t>([&](size_t i) { return 1e6 * value(i); });
    default: return fill<uint8_t>([&](size_t i) { return static_cast<int>(40 * value(i)) & 0x7B; });
  }
}

void compare(benchmark::State& state, DType a, DType b, Apart apart, std::vector<int64_t> shape, unsigned threads) {
  const auto bytes_a = sample(a, apart == Apart::kMasked ? apart : Apart::kSame);
  const auto bytes_b = sample(b, apart);
  const MeasureOptions options{.tolerance = {.rtol = 1e-5, .atol = 1e-6}, .threads = threads};
  for (auto _ : state)
    benchmark::DoNotOptimize(measure({bytes_a.data(), a, shape, {}}, {bytes_b.data(), b, shape, {}}, options));
  int64_t pairs = 1;
  for (const int64_t length : shape) pairs *= length;
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * pairs);
}

void add(const std::string& title, DType a, DType b, Apart apart, const std::vector<int64_t>& shape,
         unsigned threads = 1) {
  auto* bench =
      benchmark::RegisterBenchmark(title.c_str(), compare, a, b, apart, shape, threads)->Unit(benchmark::kMillisecond);
  if (threads != 1) bench->UseRealTime();
}

void add_all() {
  const std::vector<int64_t> matrix = {kPairs / 4096, 4096};
  for (DType dtype :
       {DType::kF32, DType::kBF16, DType::kF16, DType::kF64, DType::kF8E4M3FN, DType::kI64, DType::kI32}) {
    const std::string base(dtype_name(dtype));
    add("same/" + base, dtype, dtype, Apart::kSame, matrix);
    add("close/" + base, dtype, dtype, Apart::kClose, matrix);
    add("far/" + base, dtype, dtype, Apart::kFar, matrix);
  }
  add("mixed/f32_bf16", DType::kF32, DType::kBF16, Apart::kClose, matrix);
  add("mixed/i64_f32", DType::kI64, DType::kF32, Apart::kClose, matrix);
  add("masked/f32", DType::kF32, DType::kF32, Apart::kMasked, matrix);
  add("shape/one_axis", DType::kF32, DType::kF32, Apart::kClose, {kPairs});
  add("shape/heads", DType::kF32, DType::kF32, Apart::kClose, {8, 32, kPairs / 8 / 32 / 64, 64});
  add("shape/tiny_inner", DType::kF32, DType::kF32, Apart::kClose, {kPairs / 8, 1, 2, 1, 4});
  add("shape/odd_middle", DType::kF32, DType::kF32, Apart::kClose, {kPairs / 4096 / 8, 4096, 8});
  add("small/32x32", DType::kF32, DType::kF32, Apart::kClose, {32, 32});
  add("small/128x768", DType::kF32, DType::kF32, Apart::kClose, {128, 768});
  add("threads2/f32", DType::kF32, DType::kF32, Apart::kClose, matrix, 2);
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
