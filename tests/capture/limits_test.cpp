// What the recorder may take from the machine: memory, disk, and when it is off nothing at all.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>

#include "core/json.h"
#include "scratch.h"
#include "store/files/mapped_file.h"
#include "ttap/capi.h"
#include "ttap/recorder.h"
#include "ttap/run.h"

namespace ttap {
namespace {

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define TTAP_SANITIZED
#endif
#endif
#if defined(TTAP_SANITIZED) || defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Peak resident memory of this process in bytes; `reset` starts the measurement anew.
uint64_t peak_memory(bool reset = false) {
  if (reset) std::ofstream("/proc/self/clear_refs") << "5";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) << 10;
  return 0;
}

size_t thread_count() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

TEST(Limits, StagingMemoryStaysWithinItsBoundWithTenTimesAsMuchData) {
  constexpr uint64_t kStaging = 16 << 20;
  const ScratchDirectory scratch;
  std::vector<float> values(1 << 20);  // 4 MiB
  const std::vector<int64_t> shape = {1 << 20};
  std::iota(values.begin(), values.end(), 0.f);
  auto recorder = Recorder::create({.directory = scratch.path(), .rank = 0, .staging_bytes = kStaging});
  ASSERT_TRUE(recorder.ok());
  const uint64_t before = peak_memory(true);
  for (int i = 0; i < 40; ++i) {
    values[0] = static_cast<float>(i);  // other bytes each time, so that nothing is deduplicated
    (*recorder)->capture("x", {values.data(), DType::kF32, shape, {}});
    for (int j = 0; j < 500; ++j) (*recorder)->capture("tiny", {values.data(), DType::kF32, {}, {}});
  }
  ASSERT_TRUE((*recorder)->close().ok());
  const uint64_t grown = peak_memory() - before;
  EXPECT_EQ((*recorder)->report().tensors, 40u * 501);
  EXPECT_LE((*recorder)->report().staging_peak_bytes, kStaging);
  // Rows, strings and the allocator's own take a little beside the ring; a sanitizer's shadow takes a multiple.
  constexpr uint64_t kBeside = 6 << 20;
  if (!kSanitized) {
    EXPECT_LE(grown, kStaging + kBeside);
  }
}

TEST(Limits, OffIsNothing) {
  ASSERT_EQ(::unsetenv("TTAP_DIR"), 0);
  const size_t threads = thread_count();
  ttap_options options;
  ttap_options_init(&options);
  ttap_recorder* recorder = nullptr;
  ASSERT_EQ(ttap_recorder_create(&options, &recorder), 0);
  EXPECT_EQ(recorder, nullptr);
  const float value = 1;
  const ttap_tensor tensor{&value, TTAP_F32, 0, nullptr, nullptr};
  EXPECT_EQ(ttap_begin_pass(recorder), 0u);
  EXPECT_EQ(ttap_wants(recorder, "x"), 0);
  EXPECT_EQ(ttap_capture(recorder, "x", &tensor, nullptr, nullptr), 0);
  EXPECT_EQ(thread_count(), threads);
  EXPECT_EQ(ttap_recorder_close(recorder), 0);
}

// A tmpfs of its own size, or none when this user may not mount.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& options) {
    mounted_ = ::mount("tmpfs", directory_.path().c_str(), "tmpfs", 0, options.c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(directory_.path().c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  const std::filesystem::path& path() const { return directory_.path(); }

 private:
  ScratchDirectory directory_;
  bool mounted_ = false;
};

TEST(Limits, AFullDiskIsCountedAndTheProgramGoesOn) {
  const SmallDisk disk("size=4m");
  if (!disk.mounted()) GTEST_SKIP() << "skipped: mounting a small tmpfs needs root";
  auto recorder = Recorder::create({.directory = disk.path(), .rank = 0});
  ASSERT_TRUE(recorder.ok());
  const std::vector<int64_t> shape = {64 << 10};
  constexpr size_t kTensors = 100;
  (*recorder)->begin_pass();
  for (size_t i = 0; i < kTensors; ++i) {
    const std::vector<float> values(64 << 10, static_cast<float>(i));
    (*recorder)->capture("x", {values.data(), DType::kF32, shape, {}});
    if (i % 10 == 0) (void)(*recorder)->flush();
  }
  const Status closed = (*recorder)->close();
  EXPECT_FALSE(closed.ok()) << "close() tells";
  const Report report = (*recorder)->report();
  EXPECT_GT(report.drops.disk_full, 50u);
  EXPECT_NE(report.first_error.find("No space left"), std::string::npos);
  EXPECT_NE(report.describe().find("the disk was full"), std::string::npos);

  // The pass is finished all the same, thanks to the reserve, and says what it lacks.
  const auto pass = Pass::open((*recorder)->rank_directory() / "pass00000.ttap");
  ASSERT_TRUE(pass.ok()) << pass.error().describe();
  EXPECT_EQ(pass->info().ending, Ending::kComplete);
  EXPECT_EQ(pass->info().drops.disk_full, report.drops.disk_full);
  size_t with_bytes = 0;
  for (size_t i = 0; i < pass->tensor_count(); ++i) {
    if (!pass->tensor(i).has_bytes) continue;
    ++with_bytes;
    const auto view = pass->read(i);
    ASSERT_TRUE(view.ok()) << view.error().describe();
  }
  EXPECT_GT(with_bytes, 5u);
  EXPECT_EQ(with_bytes + report.drops.disk_full, kTensors) << "every tensor is either there or counted";
}

TEST(Limits, ADiskFullOfLargeTensorsEndsItsPassToo) {
  for (const WriteMode mode : {WriteMode::kDirect, WriteMode::kBuffered}) {
    const SmallDisk disk("size=9m");
    if (!disk.mounted()) GTEST_SKIP() << "skipped: mounting a small tmpfs needs root";
    auto recorder = Recorder::create({.directory = disk.path(), .rank = 0, .write = mode});
    ASSERT_TRUE(recorder.ok());
    const std::vector<int64_t> shape = {500'000};  // 2 MB
    constexpr size_t kTensors = 12;
    for (size_t i = 0; i < kTensors; ++i) {
      const std::vector<float> values(500'000, static_cast<float>(i));
      (*recorder)->capture("x", {values.data(), DType::kF32, shape, {}});
    }
    EXPECT_FALSE((*recorder)->close().ok());
    const auto pass = Pass::open((*recorder)->rank_directory() / "pass00000.ttap");
    ASSERT_TRUE(pass.ok()) << pass.error().describe();
    EXPECT_EQ(pass->info().ending, Ending::kComplete);
    EXPECT_EQ(pass->info().problem, "");
    ASSERT_EQ(pass->tensor_count(), kTensors);
    size_t with_bytes = 0;
    for (size_t i = 0; i < kTensors; ++i) {
      if (!pass->tensor(i).has_bytes) continue;
      ++with_bytes;
      EXPECT_TRUE(pass->read(i).ok());
    }
    EXPECT_GE(with_bytes, 2u);
    EXPECT_EQ(with_bytes + pass->info().drops.disk_full, kTensors);
  }
}

TEST(Limits, ATensorInPiecesThatMeetsAFullDiskIsTakenBack) {
  const SmallDisk disk("size=4m");
  if (!disk.mounted()) GTEST_SKIP() << "skipped: mounting a small tmpfs needs root";
  auto recorder = Recorder::create({.directory = disk.path(), .rank = 0, .staging_bytes = 1 << 20});
  ASSERT_TRUE(recorder.ok());
  std::vector<float> values(4 << 20);
  const std::vector<int64_t> shape = {4 << 20};
  (*recorder)->capture("too large", {values.data(), DType::kF32, shape, {}});
  (*recorder)->capture("small", {values.data(), DType::kF32, {}, {}});
  EXPECT_FALSE((*recorder)->close().ok());
  const auto pass = Pass::open((*recorder)->rank_directory() / "pass00000.ttap");
  ASSERT_TRUE(pass.ok()) << pass.error().describe();
  ASSERT_EQ(pass->tensor_count(), 2u);
  EXPECT_FALSE(pass->tensor(0).has_bytes);
  EXPECT_EQ(pass->tensor(0).fingerprint.stats.zeros, values.size()) << "the fingerprint is of the whole";
  EXPECT_TRUE(pass->read(1).ok());
  EXPECT_EQ(pass->info().drops.disk_full, 1u);
}

TEST(Limits, TheQuotaHoldsForRowsStringsEventsAndPasses) {
  constexpr uint64_t kQuota = 1 << 20;
  const auto directory_bytes = [](const std::filesystem::path& directory) {
    uint64_t total = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory))
      if (entry.path().filename().string().starts_with("pass")) total += entry.file_size();
    return total;
  };
  const float value = 1;
  const std::string long_text(2000, 's');
  const std::function<void(Recorder&)> programs[] = {
      [&](Recorder& recorder) {
        for (int i = 0; i < 3000; ++i)
          (void)recorder.begin_event({.name = "x", .stack = long_text + std::to_string(i)});
      },
      [&](Recorder& recorder) {
        for (int i = 0; i < 3000; ++i)
          recorder.capture("x", {&value, DType::kF32, {}, {}}, {.path = "/" + long_text + std::to_string(i)});
      },
      [&](Recorder& recorder) {
        for (int i = 0; i < 3000; ++i) {
          recorder.begin_pass();
          recorder.capture("x", {&value, DType::kF32, {}, {}});
        }
      },
      [&](Recorder& recorder) {
        for (int i = 0; i < 20'000; ++i) recorder.capture("x", {&value, DType::kF32, {}, {}});
        (void)recorder.begin_event({.name = "late"});
      }};
  for (const auto& program : programs) {
    const ScratchDirectory scratch;
    auto recorder = Recorder::create({.directory = scratch.path(), .rank = 0, .quota_bytes = kQuota});
    ASSERT_TRUE(recorder.ok());
    program(**recorder);
    ASSERT_TRUE((*recorder)->close().ok());
    EXPECT_LE(directory_bytes((*recorder)->rank_directory()), kQuota);
    EXPECT_GT((*recorder)->report().drops.quota + (*recorder)->report().drops.events, 0u);
  }
}

TEST(Limits, FingerprintsGoOnInTheReserveOfTheQuota) {
  constexpr uint64_t kQuota = 4 << 20;
  const ScratchDirectory scratch;
  auto recorder = Recorder::create({.directory = scratch.path(), .rank = 0, .quota_bytes = kQuota});
  ASSERT_TRUE(recorder.ok());
  const std::vector<int64_t> shape = {64 << 10};
  constexpr int kPasses = 100;  // of 1 MiB, and less than 10 KiB without the bytes
  for (int pass = 0; pass < kPasses; ++pass) {
    (*recorder)->begin_pass();
    for (int i = 0; i < 4; ++i) {
      const std::vector<float> values(64 << 10, static_cast<float>(4 * pass + i));
      (*recorder)->capture("x", {values.data(), DType::kF32, shape, {}});
    }
  }
  ASSERT_TRUE((*recorder)->close().ok());
  const Report report = (*recorder)->report();
  EXPECT_EQ(report.lost_passes, 0u);
  const auto run = Run::open(scratch.path());
  ASSERT_EQ(run->ranks.at(0).passes.size(), static_cast<size_t>(kPasses));
  uint64_t with_bytes = 0;
  for (const PassFile& file : run->ranks[0].passes) {
    const auto pass = Pass::open(file.path);
    ASSERT_EQ(pass->tensor_count(), 4u) << file.number;
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(pass->tensor(i).has_fingerprint);
      with_bytes += pass->tensor(i).has_bytes ? 1 : 0;
    }
  }
  EXPECT_GE(with_bytes, 8u);
  EXPECT_LE(with_bytes, 12u) << "a quarter is left to what is not bytes";
  EXPECT_EQ(with_bytes + report.drops.quota, 4u * kPasses);
}

TEST(Limits, PassesThatTheQuotaLeavesNoFileForAreCounted) {
  const ScratchDirectory scratch;
  const float value = 1;
  for (uint64_t recorders : {1u, 2u}) {  // the second goes on in the same directory
    auto recorder = Recorder::create({.directory = scratch.path(), .append = true, .rank = 0, .quota_bytes = 64 << 10});
    ASSERT_TRUE(recorder.ok());
    for (int pass = 0; pass < 100; ++pass) {
      (*recorder)->begin_pass();
      (*recorder)->capture("x", {&value, DType::kF32, {}, {}});
    }
    ASSERT_TRUE((*recorder)->close().ok());
    EXPECT_GT((*recorder)->report().lost_passes, 0u);
    const auto run = Run::open(scratch.path());
    const Json lost = parse_json(side_file_text(run->ranks.at(0).path / "coverage.json"))["lost_passes"];
    EXPECT_EQ(lost["passes"].get<uint64_t>() + run->ranks[0].passes.size(), 100 * recorders);
    EXPECT_EQ(lost["drops"]["quota"], lost["passes"]) << "each had one tensor";
  }
}

TEST(Limits, TheQuotaHoldsForPassesOpenAtOnce) {
  constexpr uint64_t kQuota = 1 << 20;
  const ScratchDirectory scratch;
  auto recorder = Recorder::create({.directory = scratch.path(), .rank = 0, .quota_bytes = kQuota});
  ASSERT_TRUE(recorder.ok());
  const uint32_t passes[] = {(*recorder)->open_pass(), (*recorder)->open_pass()};
  const std::vector<int64_t> shape = {4 << 10};
  for (int i = 0; i < 200; ++i)
    for (const uint32_t pass : passes) {
      const std::vector<float> values(4 << 10, static_cast<float>(i));
      const Event event = (*recorder)->begin_event({.name = "x", .pass = pass});
      (*recorder)->capture(event, {values.data(), DType::kF32, shape, {}});
      (void)(*recorder)->flush();  // many small batches: the index has a place in the quota, too
    }
  ASSERT_TRUE((*recorder)->close().ok());
  uint64_t bytes = 0;
  uint64_t without_bytes = 0;
  uint64_t dropped = 0;
  const auto run = Run::open(scratch.path());
  ASSERT_TRUE(run.ok());
  for (const PassFile& file : run->ranks[0].passes) {
    const auto pass = Pass::open(file.path);
    ASSERT_TRUE(pass.ok());
    EXPECT_EQ(pass->info().ending, Ending::kComplete);
    bytes += pass->info().file_bytes;
    dropped += pass->info().drops.quota;
    uint64_t missing = 200 - pass->tensor_count();
    for (size_t i = 0; i < pass->tensor_count(); ++i) missing += pass->tensor(i).has_bytes ? 0 : 1;
    EXPECT_GT(missing, 0u) << "the quota is shared";
    EXPECT_LT(missing, 200u);
    EXPECT_EQ(pass->info().drops.quota, missing) << "each counts its own";
    without_bytes += missing;
  }
  EXPECT_EQ(dropped, without_bytes);
  EXPECT_EQ((*recorder)->report().drops.quota, dropped);
  EXPECT_LE(bytes, kQuota);
  EXPECT_GT(bytes, kQuota / 2);
}

TEST(Limits, OnAFullDiskEveryOpenPassEndsProperly) {
  const SmallDisk disk("size=4m");
  if (!disk.mounted()) GTEST_SKIP() << "skipped: mounting a small tmpfs needs root";
  auto recorder = Recorder::create({.directory = disk.path(), .rank = 0});
  ASSERT_TRUE(recorder.ok());
  constexpr uint32_t kPasses = 3;
  std::vector<uint64_t> captured(kPasses);
  const auto capture = [&](uint32_t pass, int64_t elements) {
    const std::vector<float> values(static_cast<size_t>(elements), static_cast<float>(++captured[pass]));
    const std::vector<int64_t> shape = {elements};
    (*recorder)->capture((*recorder)->begin_event({.name = "x", .pass = pass}),
                         {values.data(), DType::kF32, shape, {}});
  };
  for (uint32_t pass = 0; pass < kPasses; ++pass) ASSERT_EQ((*recorder)->open_pass(), pass);
  for (int i = 0; i < 40; ++i)
    for (uint32_t pass = 0; pass < kPasses; ++pass) capture(pass, 64 << 10);
  // Whenever one has ended the others fill what is left, in batches so small that the last page is used up.
  for (uint32_t ended = 0; ended < kPasses; ++ended) {
    for (uint32_t pass = ended; pass < kPasses; ++pass)
      for (int i = 0; i < 3000; ++i) {
        capture(pass, 8);
        if (i % 5 == 0) (void)(*recorder)->flush();
      }
    (*recorder)->close_pass(ended);
  }
  EXPECT_FALSE((*recorder)->close().ok()) << "close() tells";
  uint64_t dropped = 0;
  for (uint32_t number = 0; number < kPasses; ++number) {
    const auto pass = Pass::open((*recorder)->rank_directory() / ("pass0000" + std::to_string(number) + ".ttap"));
    ASSERT_TRUE(pass.ok()) << pass.error().describe();
    EXPECT_EQ(pass->info().ending, Ending::kComplete);
    uint64_t with_bytes = 0;
    for (size_t i = 0; i < pass->tensor_count(); ++i) with_bytes += pass->tensor(i).has_bytes ? 1 : 0;
    EXPECT_EQ(with_bytes + pass->info().drops.disk_full, captured[number]) << "every tensor is there or counted";
    dropped += pass->info().drops.disk_full;
  }
  EXPECT_GT(dropped, 1000u);
  EXPECT_EQ((*recorder)->report().drops.disk_full, dropped);
}

TEST(Limits, ADiskThatStaysFullDoesNotSlowTheRecorderDown) {
  const SmallDisk disk("size=1m");
  if (!disk.mounted()) GTEST_SKIP() << "skipped: mounting a small tmpfs needs root";
  auto recorder = Recorder::create({.directory = disk.path(), .rank = 0});
  ASSERT_TRUE(recorder.ok());
  constexpr uint64_t kTensors = 60'000;
  const float value = 1;
  for (uint64_t i = 0; i < kTensors; ++i)
    (*recorder)->capture("x" + std::to_string(i % 5000), {&value, DType::kF32, {}, {}});
  EXPECT_FALSE((*recorder)->close().ok());
  const Report report = (*recorder)->report();
  EXPECT_EQ(report.tensors + report.drops.disk_full, kTensors);
  const auto pass = Pass::open((*recorder)->rank_directory() / "pass00000.ttap");
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(pass->tensor_count(), report.tensors);
  EXPECT_EQ(pass->event_count(), report.tensors);
  EXPECT_EQ(pass->info().problem, "");
}

}  // namespace
}  // namespace ttap
