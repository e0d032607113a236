// Copied and fingerprinted in one go, by several threads, in pieces, in place: always the bits of fingerprint().
#include "capture/tensor_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "capture/recording.h"
#include "flush_subnormals.h"
#include "sample_tensors.h"
#include "scratch.h"
#include "store/segment/segment_file.h"

namespace ttap {
namespace {

void expect_identical(const Fingerprint& a, const Fingerprint& b, const std::string& what) {
  EXPECT_EQ(a.hash, b.hash) << what;
  EXPECT_EQ(std::memcmp(&a.stats, &b.stats, sizeof a.stats), 0) << what;
}

// Around every size at which something else happens.
std::vector<uint64_t> telling_sizes() {
  std::vector<uint64_t> sizes = {0, 1, 63, 64, 65};
  for (const uint64_t limit : {uint64_t{kHashBlockBytes}, kDirectBytes, kChunkBytes, 2 * kChunkBytes})
    for (const int off : {-16, -1, 0, 16}) sizes.push_back(limit + static_cast<uint64_t>(off));
  return sizes;
}

// The first `bytes` of the same random ones, as a vector or as a transposed matrix of 48 columns.
struct Sample {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape, strides;

  static const std::vector<std::byte>& bytes_for(DType dtype) {
    constexpr size_t kMost = 6 * kChunkBytes;
    static const auto bools = test::sample_bytes(DType::kBool, kMost, 1);
    static const auto others = test::sample_bytes(DType::kU8, kMost, 2);
    return dtype == DType::kBool ? bools : others;
  }
  TensorView view() const { return {bytes_for(dtype).data(), dtype, shape, strides}; }
};

Sample sample(DType dtype, uint64_t bytes, bool strided) {
  const auto count = static_cast<int64_t>(bytes / size_of(dtype));
  const std::string what =
      std::string(dtype_name(dtype)) + " of " + std::to_string(bytes) + (strided ? ", transposed" : "");
  if (!strided) return {what, dtype, {count}, {}};
  return {what, dtype, {count / 48, 48}, {1, count / 48}};
}

class AlignedBytes {
 public:
  explicit AlignedBytes(size_t size) : storage_(size + 64) {}
  std::byte* data() { return storage_.data() + (64 - reinterpret_cast<uintptr_t>(storage_.data()) % 64) % 64; }

 private:
  std::vector<std::byte> storage_;
};

TEST(TensorCopy, GivesTheFingerprintAndTheBytesOfEveryDtypeSizeAndLayout) {
  CopyCrew crew(3);
  for (const DType dtype : kAllDTypes)
    for (const uint64_t size : telling_sizes())
      for (const bool strided : {false, true}) {
        const auto tensor = sample(dtype, size, strided);
        const std::string& what = tensor.name;
        const LogicalCopy source(tensor.view());
        const auto bytes = test::logical_bytes(tensor.view());
        const Fingerprint expected = fingerprint(tensor.view());
        AlignedBytes target(bytes.size());
        TensorCopy copy(crew, tensor.view(), source, bytes.size(), true);
        copy.take(bytes.size(), target.data());
        expect_identical(copy.finish(), expected, what);
        EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), target.data())) << what;
        TensorCopy in_place(crew, tensor.view(), source, bytes.size(), true);
        in_place.take(bytes.size(), nullptr);
        expect_identical(in_place.finish(), expected, what + ", in place");
      }
}

TEST(TensorCopy, TakesPartsOfAnyNumberOfBlocks) {
  CopyCrew crew(2);
  const uint64_t total = 5 * kChunkBytes + 5000;
  const auto tensor = sample(DType::kF32, total, false);
  const LogicalCopy source(tensor.view());
  for (const uint64_t part : {uint64_t{4096}, kChunkBytes - 4096, kChunkBytes, kChunkBytes + 4096, 2 * kChunkBytes,
                              2 * kChunkBytes + 8192, 5 * kChunkBytes}) {
    AlignedBytes target(total);
    TensorCopy copy(crew, tensor.view(), source, part, true);
    for (uint64_t done = 0; done < total; done += part) copy.take(std::min(part, total - done), target.data() + done);
    expect_identical(copy.finish(), fingerprint(tensor.view()), "in parts of " + std::to_string(part));
    EXPECT_EQ(std::memcmp(tensor.view().data, target.data(), total), 0);
  }
}

TEST(TensorCopy, CountsSubnormalsForAProgramThatTreatsThemAsZero) {
  CopyCrew crew(1);
  const std::vector<float> values(3 << 18, 1e-40f);
  const std::vector<int64_t> shape = {3 << 18};
  const TensorView view{values.data(), DType::kF32, shape, {}};
  const LogicalCopy source(view);
  Fingerprint taken;
  {
    const FlushSubnormals flush;
    TensorCopy copy(crew, view, source, 3 << 20, true);
    copy.take(3 << 20, nullptr);
    taken = copy.finish();
  }
  EXPECT_EQ(taken.stats.subnormals, values.size());
  expect_identical(taken, fingerprint(view), "in another mode");
}

// ---- through the recorder ----

class RecordedIn : public testing::TestWithParam<WriteMode> {};

TEST_P(RecordedIn, EveryDtypeAndSizeHasTheFingerprintAndTheBytesThatItHad) {
  // The largest do not fit half of this ring, so they come in pieces, each of two chunks.
  for (const uint64_t staging : {uint64_t{9} << 20, uint64_t{64} << 20, uint64_t{300} << 10})
    for (const Level level : {Level::kFull, Level::kFingerprint}) {
      const ScratchDirectory scratch;
      auto recorder =
          make({.directory = scratch.path(), .level = level, .staging_bytes = staging, .write = GetParam()});
      std::vector<Sample> tensors;
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kU8, DType::kC128, DType::kF8E5M2FNUZ})
        for (const uint64_t size : {uint64_t{0}, uint64_t{16}, kDirectBytes - 16, kDirectBytes, kChunkBytes - 16,
                                    kChunkBytes + 16, 5 * kChunkBytes + 32})
          for (const bool strided : {false, true}) tensors.push_back(sample(dtype, size, strided));
      // Two threads at once: one from the front, one from the back.
      std::thread other([&] {
        for (size_t i = tensors.size(); i-- > 0;) recorder->capture("b" + std::to_string(i), tensors[i].view());
      });
      for (size_t i = 0; i < tensors.size(); ++i) recorder->capture("a" + std::to_string(i), tensors[i].view());
      other.join();
      ASSERT_TRUE(recorder->close().ok());
      const Pass pass = open_pass(*recorder, 0);
      EXPECT_EQ(pass.info().problem, "");
      ASSERT_EQ(pass.tensor_count(), 2 * tensors.size());
      for (size_t i = 0; i < tensors.size(); ++i)
        for (const char* who : {"a", "b"}) {
          const auto index = pass.find({.name = who + std::to_string(i)});
          ASSERT_TRUE(index);
          const TensorRecord record = pass.tensor(*index);
          expect_identical(record.fingerprint, fingerprint(tensors[i].view()), tensors[i].name);
          EXPECT_EQ(record.has_bytes, level == Level::kFull);
          if (!record.has_bytes) continue;
          const auto view = pass.read(*index);
          ASSERT_TRUE(view.ok()) << view.error().describe();
          EXPECT_EQ(test::logical_bytes(*view), test::logical_bytes(tensors[i].view()));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Modes, RecordedIn,
                         testing::Values(WriteMode::kAuto, WriteMode::kDirect, WriteMode::kBuffered));

TEST(Recorded, WhatTheProgramWritesMeanwhileDoesNotMakeTheFileUnsound) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "skipped: a race by design";
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "skipped: a race by design";
#endif
#endif
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .deduplicate = false});
  std::vector<uint64_t> values(3 << 17);
  const std::vector<int64_t> shape = {3 << 17};
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (uint64_t round = 0; !done; ++round)
      for (size_t i = round % 7; i < values.size(); i += 7) static_cast<volatile uint64_t&>(values[i]) = round;
  });
  constexpr int kTensors = 30;
  for (int i = 0; i < kTensors; ++i) recorder->capture("x", {values.data(), DType::kU64, shape, {}});
  done = true;
  writer.join();
  ASSERT_TRUE(recorder->close().ok());
  const Pass pass = open_pass(*recorder, 0);
  ASSERT_EQ(pass.tensor_count(), static_cast<size_t>(kTensors));
  for (size_t i = 0; i < kTensors; ++i) EXPECT_TRUE(pass.read(i).ok()) << "bytes that do not have their hash";
}

}  // namespace
}  // namespace ttap
