#include <benchmark/benchmark.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>
#include <utility>

#include "analyze/diff/align.h"
#include "analyze/diff/diff.h"
#include "core/mix64.h"
#include "ttap/recorder.h"

// Two traces of a million ops, at level fingerprint: 64 layers that are run again and again.
namespace ttap {
namespace {

constexpr uint32_t kOps = 1'000'000;

enum class Change : uint8_t {
  kNone,
  kInserted,  // an op more here and there, and from the middle on other values
  kCompiled,  // no modules, every third op fused away, and other values throughout
};

std::string trace(Change change) {
  static const std::string folder = std::filesystem::temp_directory_path() / ("ttap_bench_" + std::to_string(getpid()));
  const std::string path = folder + "/" + std::to_string(static_cast<int>(change));
  if (std::filesystem::exists(path)) return path;
  RecorderOptions options;
  options.directory = path;
  options.level = Level::kFingerprint;
  auto recorder = Recorder::create(options).value();
  recorder->begin_pass();
  constexpr std::array kNames{"aten::addmm", "aten::view", "aten::mul.Tensor", "aten::relu", "aten::add.Tensor"};
  const std::array<int64_t, 2> shape{2, 4};
  uint32_t value = 0, last = 0;
  const auto run = [&](uint32_t i, uint64_t seed) {
    const std::string scope = change == Change::kCompiled ? "" : "layers." + std::to_string(i / 50 % 64) + ":";
    const Event event = recorder->begin_event({.name = scope + kNames[i % kNames.size()]});
    std::array<float, 8> made;
    for (size_t k = 0; k < made.size(); ++k)
      made[k] = static_cast<float>(mix64(seed * 8 + k) >> 40) / 16777216.0F + 1.0F;
    recorder->capture(event, {made.data(), DType::kF32, shape, {}}, {.value = ++value});
    const std::array uses{Use{.role = "in", .path = "/0", .value = last}, Use{.role = "out", .value = value}};
    recorder->end_event(event,
                        {.arguments = "%0", .results = "%1", .uses = std::span(uses).subspan(last == 0 ? 1 : 0)});
    last = value;
  };
  for (uint32_t i = 0; i < kOps; ++i) {
    if (change == Change::kCompiled && i % 3 == 1) continue;
    if (change == Change::kInserted && i % 10'007 == 0) run(i, kOps + i);
    const bool other = change == Change::kCompiled || (change == Change::kInserted && i > kOps / 2);
    run(i, other ? i + 2 * uint64_t{kOps} : i);
  }
  (void)recorder->close();
  return path;
}

void diff_ops(benchmark::State& state, Change change) {
  const std::string a = trace(Change::kNone), b = trace(change);
  for (auto _ : state) {
    const auto report = diff(a, b);
    if (!report.ok()) state.SkipWithError(report.error().describe().c_str());
    state.counters["pairs"] =
        static_cast<double>(report->count(Verdict::kIdentical) + report->count(Verdict::kDiverged) +
                            report->count(Verdict::kWithin) + report->count(Verdict::kInconclusive));
  }
  state.counters["ops/s"] = benchmark::Counter(2.0 * kOps, benchmark::Counter::kIsIterationInvariantRate);
}

void align_ops(benchmark::State& state, Change change) {
  const auto side = [](const std::string& path) {
    const Run run = Run::open(path).value();
    return make_side(Pass::open(run.ranks.front().passes.front().path).value(), 0);
  };
  const auto a = side(trace(Change::kNone)), b = side(trace(change));
  for (auto _ : state) benchmark::DoNotOptimize(align(*a, *b));
}

BENCHMARK_CAPTURE(align_ops, same, Change::kNone)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(align_ops, inserted, Change::kInserted)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(align_ops, compiled, Change::kCompiled)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(diff_ops, same, Change::kNone)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(diff_ops, inserted, Change::kInserted)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(diff_ops, compiled, Change::kCompiled)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ttap

BENCHMARK_MAIN();
