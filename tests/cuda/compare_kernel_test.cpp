#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "core/compare_tensors.h"
#include "cuda/kernels/launch.h"
#include "cuda/runtime/memory.h"
#include "cuda/scratch_table.h"

namespace ttap::cuda {
namespace {

// The kernel against the same comparison on the host: one definition of "close", two places.
class CompareKernel : public testing::Test {
 protected:
  void SetUp() override {
    if (!available()) GTEST_SKIP() << "skipped: no GPU (" << unavailable_reason() << ")";
    stream_ = make_stream().value();
    state_ = zeroed_device_memory(0, sizeof(CompareState)).value();
    report_memory_ = pinned_memory(sizeof(CompareReport)).value();
    report_ = new (report_memory_.get()) CompareReport;
  }
  void TearDown() override {
    if (stream_ != nullptr) destroy_stream(stream_);
  }

  DeviceMemory on_device(const std::vector<std::byte>& bytes) {
    DeviceMemory memory = device_memory(0, bytes.size() + 16).value();
    const PinnedMemory staged = pinned_memory(bytes.size() + 16).value();
    std::memcpy(staged.get(), bytes.data(), bytes.size());
    EXPECT_TRUE(copy(memory.get(), staged.get(), bytes.size(), stream_).ok());
    EXPECT_TRUE(synchronize(stream_).ok());
    return memory;
  }

  // `strides` are those of `actual`; the expected tensor is in C order.
  void compare(DType dtype, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
               const std::vector<std::byte>& actual, const std::vector<std::byte>& expected, Tolerance tolerance) {
    const Comparison wanted =
        compare_tensors({actual.data(), dtype, shape, strides}, {expected.data(), dtype, shape, {}}, tolerance);
    const DeviceMemory a = on_device(actual);
    const DeviceMemory b = on_device(expected);
    const uint64_t failures = report_->failures;
    ASSERT_TRUE(launch_compare({.view = {a.get(), dtype, shape, strides},
                                .expected = b.get(),
                                .tolerance = tolerance,
                                .state = reinterpret_cast<CompareState*>(state_.get()),
                                .report = report_},
                               stream_)
                    .ok());
    ASSERT_TRUE(synchronize(stream_).ok());
    ++comparisons_;
    EXPECT_EQ(report_->comparisons, comparisons_);
    EXPECT_EQ(report_->failures, failures + (wanted.differing > 0 ? 1 : 0));
    if (failures > 0 || wanted.differing == 0) return;  // only the first is kept
    EXPECT_EQ(report_->failed_comparison, comparisons_ - 1);
    EXPECT_EQ(report_->differing, wanted.differing);
    EXPECT_EQ(report_->first, wanted.first);
    EXPECT_EQ(report_->largest, wanted.largest);
    EXPECT_EQ(std::memcmp(report_->actual, wanted.actual.data(), size_of(dtype)), 0);
    EXPECT_EQ(std::memcmp(report_->expected, wanted.expected.data(), size_of(dtype)), 0);
  }

  // As if nothing had been compared yet.
  void start_again() {
    state_ = zeroed_device_memory(0, sizeof(CompareState)).value();
    *report_ = {};
    comparisons_ = 0;
  }

  Stream stream_ = nullptr;
  DeviceMemory state_;
  PinnedMemory report_memory_;
  CompareReport* report_ = nullptr;
  uint64_t comparisons_ = 0;
};

std::vector<std::byte> pattern(size_t bytes, unsigned seed) {
  std::vector<std::byte> made(bytes);
  uint32_t state = seed * 2654435761U + 1;
  for (std::byte& byte : made) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  return made;
}

TEST_F(CompareKernel, FindsWhatTheHostFindsInEveryDType) {
  for (const DType dtype : kAllDTypes) {
    for (const int64_t count : {1, 255, 2049, 100'003}) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + " of " + std::to_string(count));
      const std::vector<std::byte> expected = pattern(static_cast<size_t>(count) * size_of(dtype), 1);
      std::vector<std::byte> actual = expected;
      for (size_t i = actual.size() / 2; i < actual.size(); i += 97) actual[i] ^= std::byte{4};
      start_again();
      compare(dtype, {count}, {}, expected, expected, {.equal_nan = true});
      compare(dtype, {count}, {}, actual, expected, {.rtol = 1e-3, .equal_nan = true});
      compare(dtype, {count}, {}, expected, expected, {.equal_nan = true});  // the failure stays
    }
  }
}

TEST_F(CompareKernel, ReadsStrides) {
  const std::vector<std::byte> actual = pattern(4 * 5 * 6 * 8, 3);
  const std::vector<std::byte> expected = pattern(4 * 5 * 6 * 8, 4);
  compare(DType::kI64, {4, 5, 6}, {1, 24, 4}, actual, expected, {});
  start_again();
  compare(DType::kI64, {10, 3}, {12, 2}, actual, expected, {});
  start_again();
  compare(DType::kI16, {7, 9}, {0, 1}, actual, expected, {});
}

TEST_F(CompareKernel, CountsComparisonsOfNothing) {
  compare(DType::kF32, {0}, {}, {}, {}, {});
  compare(DType::kF32, {3, 0}, {}, {}, {}, {});
}

}  // namespace
}  // namespace ttap::cuda
