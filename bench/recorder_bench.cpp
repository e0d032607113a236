// What recording costs, each figure against a peer in the same run; one JSON object per line, for bench/ratios.py.
//   recorder_bench SCRATCH_DIRECTORY [capture|record|fingerprint|open]…
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>
#include <string>
#include <string_view>

#include "pair.h"
#include "ttap/fingerprint.h"
#include "ttap/recorder.h"
#include "ttap/run.h"

namespace ttap::bench {
namespace {

namespace fs = std::filesystem;

// Values as a model makes them, different in every tensor, cheap to make.
std::vector<float> activations(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> some(4096);
  for (float& value : some) value = normal(random);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = some[(i * 31 + i / 4096 + seed) % some.size()];
  return values;
}

void print(std::string_view name, double ours, double peer, double bytes) {
  fmt::print("{{\"name\": \"{}\", \"ours_s\": {:.9g}, \"peer_s\": {:.9g}, \"bytes\": {:.0f}}}\n", name, ours, peer,
             bytes);
  std::fflush(stdout);
}

std::unique_ptr<Recorder> recorder_in(const fs::path& directory, RecorderOptions options = {}) {
  fs::remove_all(directory);
  options.directory = directory;
  options.rank = 0;
  return std::move(Recorder::create(options)).value();
}

// How long capture() holds the caller, at level full against memcpy of the same tensor into memory as warm and as large
// as the ring, and against memcpy and fingerprint(), which is what capture() does; at level fingerprint against
// fingerprint(). All take turns tensor by tensor, so the recorder's threads are at work during all of them.
void bench_capture(const fs::path& scratch) {
  for (const size_t bytes : {size_t{64} << 10, size_t{1} << 20, size_t{16} << 20}) {
    constexpr size_t kStaging = size_t{512} << 20;
    auto recorder =
        recorder_in(scratch / "capture", {.level_rules = {{"^hash", Level::kFingerprint}}, .staging_bytes = kStaging});
    auto values = activations(bytes / sizeof(float), 1);
    const int64_t shape[] = {static_cast<int64_t>(values.size())};
    const TensorView view{values.data(), DType::kF32, shape, {}};
    std::vector<std::byte> target(kStaging / 2);
    const size_t count = std::min<size_t>(target.size() / bytes, 256);
    std::vector<double> full, hashed, copy, print_of;
    volatile uint64_t sink = 0;
    for (int round = 0; round < 6; ++round) {
      recorder->begin_pass();
      for (size_t i = 0; i < count; ++i) {
        values[0] = static_cast<float>(round * 1000 + static_cast<int>(i));
        const double a = seconds([&] { recorder->capture("x", view); });
        const double b = seconds([&] { std::memcpy(target.data() + i * bytes, values.data(), bytes); });
        const double c = seconds([&] { recorder->capture("hash", view); });
        const double d = seconds([&] { sink = fingerprint(view).hash.low; });
        if (round == 0) continue;  // both memories are touched for the first time
        full.push_back(a);
        copy.push_back(b);
        hashed.push_back(c);
        print_of.push_back(d);
      }
      recorder->end_pass();
      (void)recorder->flush();
      fs::remove(recorder->rank_directory() / fmt::format("pass{:05}.ttap", round));
    }
    (void)sink;
    const auto size = bytes < (1 << 20) ? fmt::format("{} KiB", bytes >> 10) : fmt::format("{} MiB", bytes >> 20);
    const auto of_bytes = static_cast<double>(bytes);
    print(fmt::format("capture {} holds the caller", size), median(full), median(copy), of_bytes);
    print(fmt::format("capture {} holds the caller (both)", size), median(full), median(copy) + median(print_of),
          of_bytes);
    print(fmt::format("capture {} holds the caller (fingerprint)", size), median(hashed), median(print_of), of_bytes);
    fs::remove_all(scratch / "capture");
  }
}

// A program that records pass after pass: from the first capture() until the last file is finished, against one write()
// per tensor of the same bytes into new files. Three times over: what the page cache takes in a moment, as much until
// it is on disk, and many times as much, where the disk sets the pace.
void bench_record(const fs::path& scratch) {
  constexpr size_t kTensors = 48;
  constexpr size_t kBytes = size_t{16} << 20;
  std::vector<std::vector<float>> tensors;
  for (uint32_t i = 0; i < kTensors; ++i) tensors.push_back(activations(kBytes / sizeof(float), i));
  const int64_t shape[] = {static_cast<int64_t>(kBytes / sizeof(float))};
  struct Work {
    const char* name;
    int passes;
    int rounds;
    bool sync;
  };
  for (const Work work : {Work{"record a burst", 1, 7, false}, Work{"record until it is on disk", 1, 5, true},
                          Work{"record on and on", 8, 3, false}}) {
    auto recorder = recorder_in(scratch / "record", {.sync = work.sync});
    const auto record = [&] {
      for (int i = 0; i < work.passes; ++i) {
        const PassScope pass(*recorder);
        for (const auto& values : tensors) recorder->capture("x", {values.data(), DType::kF32, shape, {}});
      }
      if (!recorder->flush().ok()) std::abort();
    };
    const auto write_plainly = [&] {
      for (int i = 0; i < work.passes; ++i) {
        const fs::path path = scratch / "plain" / fmt::format("{}", i);
        const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
        for (const auto& values : tensors)
          if (::write(fd, values.data(), kBytes) != static_cast<ssize_t>(kBytes)) std::abort();
        if (work.sync) ::fdatasync(fd);
        ::close(fd);
      }
    };
    std::vector<double> ours, peer;
    for (int round = -1; round < work.rounds; ++round) {
      fs::create_directories(scratch / "plain");
      ::sync();
      const double a = seconds(record);
      for (const auto& entry : fs::directory_iterator(recorder->rank_directory()))
        if (entry.path().extension() == ".ttap") fs::remove(entry.path());
      ::sync();
      const double b = seconds(write_plainly);
      fs::remove_all(scratch / "plain");
      if (round < 0 && work.passes == 1) continue;  // memory is touched for the first time
      ours.push_back(a);
      peer.push_back(b);
    }
    print(work.name, median(ours), median(peer), static_cast<double>(kTensors * kBytes) * work.passes);
  }
  fs::remove_all(scratch / "record");
}

void bench_fingerprint() {
  constexpr size_t kBytes = size_t{64} << 20;
  const auto floats = activations(kBytes / sizeof(float), 1);
  std::vector<std::byte> data(kBytes), target(kBytes);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64, DType::kF8E4M3FN}) {
    const size_t size = size_of(dtype);
    for (size_t i = 0; i < kBytes / size; ++i) {
      const float value = floats[i % floats.size()];
      uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      const auto bf16 = static_cast<uint16_t>(bits >> 16);
      const double wide = value;
      switch (dtype) {
        case DType::kF32: std::memcpy(&data[i * 4], &value, 4); break;
        case DType::kF64: std::memcpy(&data[i * 8], &wide, 8); break;
        case DType::kBF16: std::memcpy(&data[i * 2], &bf16, 2); break;
        // Any normal number of the format does.
        case DType::kF16: bits = (bf16 & 0x8FFF) | 0x2000, std::memcpy(&data[i * 2], &bits, 2); break;
        default: data[i] = static_cast<std::byte>((bf16 >> 8 & 0x80) | (bits >> 16 & 0x3F) | 0x20); break;
      }
    }
    const int64_t shape[] = {static_cast<int64_t>(kBytes / size)};
    const TensorView view{data.data(), dtype, shape, {}};
    volatile uint64_t sink = 0;
    const Pair pair = measure_in_turn(
        9, [&] { sink = fingerprint(view).hash.low; },
        [&] {
          std::memcpy(target.data(), data.data(), kBytes);
          sink = static_cast<uint64_t>(target[kBytes / 2]);
        });
    print(fmt::format("fingerprint {}", dtype_name(dtype)), pair.ours, pair.peer, kBytes);
  }
}

// A pass of 100,000 small tensors, left in place for the peers and the command.
void bench_open(const fs::path& scratch) {
  constexpr size_t kTensors = 100'000;
  const fs::path run = scratch / "many";
  auto recorder = recorder_in(run);
  std::vector<float> values = activations(16, 7);
  const int64_t shape[] = {4, 4};
  const auto name_of = [](size_t i) { return fmt::format("model.layers.{}.mlp.part{}", i / 100, i % 100); };
  const double recorded = seconds([&] {
    recorder->begin_pass();
    for (size_t i = 0; i < kTensors; ++i) {
      values[0] = static_cast<float>(i);
      recorder->capture(name_of(i), {values.data(), DType::kF32, shape, {}});
    }
    if (!recorder->close().ok()) std::abort();
  });
  const fs::path path = recorder->rank_directory() / "pass00000.ttap";
  std::vector<double> opened, read;
  for (int round = -1; round < 9; ++round) {
    std::optional<Pass> pass;
    const double a = seconds([&] { pass.emplace(std::move(Pass::open(path)).value()); });
    if (pass->tensor_count() != kTensors) std::abort();
    const double b = seconds([&] {
      const auto index = pass->find({.name = name_of(77'777)});
      if (!index || !pass->read(*index).ok()) std::abort();
    });
    if (round < 0) continue;
    opened.push_back(a);
    read.push_back(b);
  }
  print("record 100,000 tensors of 64 B", recorded, 0, kTensors * 64);
  print("open a pass of 100,000 tensors", median(opened), 0, 0);
  print("find and read one of them", median(read), 0, 0);
}

}  // namespace
}  // namespace ttap::bench

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: recorder_bench SCRATCH_DIRECTORY [capture|record|fingerprint|open]...\n");
    return 2;
  }
  const std::filesystem::path scratch = argv[1];
  std::filesystem::create_directories(scratch);
  const std::vector<std::string_view> wanted(argv + 2, argv + argc);
  const auto want = [&](std::string_view part) {
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), part) != wanted.end();
  };
  if (want("capture")) ttap::bench::bench_capture(scratch);
  if (want("record")) ttap::bench::bench_record(scratch);
  if (want("fingerprint")) ttap::bench::bench_fingerprint();
  if (want("open")) ttap::bench::bench_open(scratch);
}
