// Groups decoded on the GPU against the same ones decoded on the CPU: all bits of all values.
#include <gtest/gtest.h>

#include "cuda/quant_decode.h"
#include "cuda/runtime/memory.h"
#include "quant_cases.h"

namespace ttap::cuda {
namespace {

constexpr uint8_t kUntouched = 0xAB;

class QuantKernel : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (!available()) GTEST_SKIP() << "skipped: no GPU (" << unavailable_reason() << ")";
    stream_ = make_stream().value();
    device_ = device_memory(0, kRoom).value();
    pinned_ = pinned_memory(kRoom).value();
  }
  void TearDown() override {
    if (stream_ != nullptr) destroy_stream(stream_);
  }

  // `bytes` in device memory, `offset` after a multiple of 256.
  const std::byte* upload(const std::vector<uint8_t>& bytes, size_t offset = 0) {
    used_ = (used_ + 255) / 256 * 256 + offset;
    EXPECT_LE(used_ + bytes.size(), kRoom);
    std::memcpy(pinned_.get() + used_, bytes.data(), bytes.size());
    used_ += bytes.size();
    return device_.get() + used_ - bytes.size();
  }

  // What decode_on_gpu() makes of the parts, with the payload and the target at these offsets.
  std::vector<uint8_t> decoded(const test::QuantParts& parts, DType dtype, size_t payload_offset = 0,
                               size_t target_offset = 0) {
    used_ = 0;
    const std::byte* payload = upload(parts.payload, payload_offset);
    const std::byte* scale = upload(parts.scale);
    const std::byte* global = upload(parts.global);
    const std::byte* zero = upload(parts.zero);
    const size_t bytes = parts.values() * size_of(dtype);
    const std::byte* target = upload(std::vector<uint8_t>(bytes + 16, kUntouched), target_offset);
    const auto at = static_cast<size_t>(target - device_.get());
    EXPECT_TRUE(copy(device_.get(), pinned_.get(), used_, stream_).ok());
    const Status status =
        decode_on_gpu(parts.group(payload, scale, global, zero), dtype, device_.get() + at, 0, stream_);
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
    EXPECT_TRUE(copy(pinned_.get() + at, target, bytes + 16, stream_).ok());
    EXPECT_TRUE(synchronize(stream_).ok());
    const auto* found = reinterpret_cast<const uint8_t*>(pinned_.get() + at);
    EXPECT_EQ(std::vector<uint8_t>(found + bytes, found + bytes + 16), std::vector<uint8_t>(16, kUntouched));
    return {found, found + bytes};
  }

  void compare(const test::QuantCase& each, const std::vector<int64_t>& shape, DType dtype) {
    const test::QuantParts parts = test::parts_of(each.format, shape, 7);
    std::vector<uint8_t> wanted(parts.values() * size_of(dtype));
    ASSERT_TRUE(decode(parts.group(), dtype, wanted.data()).ok());
    std::string text = each.name + " of";
    for (const int64_t length : shape) text += " " + std::to_string(length);
    EXPECT_EQ(test::first_difference(dtype, wanted, decoded(parts, dtype)), "") << text;
    if (parts.values() > 10'000) return;
    EXPECT_EQ(test::first_difference(dtype, wanted, decoded(parts, dtype, 1, 0)), "") << text << ", payload apart";
    EXPECT_EQ(test::first_difference(dtype, wanted, decoded(parts, dtype, 0, size_of(dtype))), "")
        << text << ", target apart";
  }

  static constexpr size_t kRoom = size_t{32} << 20;
  Stream stream_ = nullptr;
  DeviceMemory device_;
  PinnedMemory pinned_;
  size_t used_ = 0;
};

TEST_P(QuantKernel, GivesTheBitsOfTheCpu) {
  for (const test::QuantCase& each : test::quant_cases())
    for (const auto& shape : test::quant_shapes()) compare(each, shape, GetParam());
}

TEST_P(QuantKernel, GivesThemForMatricesOfManyBlocks) {
  for (const test::QuantCase& each : test::quant_cases()) compare(each, {129, 4096}, GetParam());
}

// One long row whose length is no multiple of anything.
TEST_P(QuantKernel, FinishesWhatIsLeftOfARow) {
  for (const char* name : {"fp8_e4m3", "fp8_e5m2", "int8_tensor"})
    for (const int64_t length : {7, 8, 9, 4095, 1'000'003})
      compare({name, quant_format(name).value()}, {length}, GetParam());
}

TEST_P(QuantKernel, ReadsStrides) {
  const test::QuantParts parts = test::parts_of(quant_format("mxfp8").value(), {4, 6, 64});
  std::vector<uint8_t> apart(2 * parts.payload.size());
  for (size_t i = 0; i < parts.payload.size(); ++i) apart[2 * i] = parts.payload[i];
  const int64_t strides[] = {2 * 6 * 64, 2 * 64, 2};
  const size_t bytes = parts.values() * size_of(GetParam());
  std::vector<uint8_t> wanted(bytes), found(bytes);
  ASSERT_TRUE(decode(parts.group(), GetParam(), wanted.data()).ok());
  QuantGroup group = parts.group(nullptr, upload(parts.scale), nullptr, nullptr);
  group.payload = {upload(apart), DType::kU8, parts.shape, strides};
  const std::byte* target = upload(found);
  const auto at = static_cast<size_t>(target - device_.get());
  ASSERT_TRUE(copy(device_.get(), pinned_.get(), used_, stream_).ok());
  ASSERT_TRUE(decode_on_gpu(group, GetParam(), device_.get() + at, 0, stream_).ok());
  ASSERT_TRUE(copy(pinned_.get(), target, bytes, stream_).ok());
  ASSERT_TRUE(synchronize(stream_).ok());
  std::memcpy(found.data(), pinned_.get(), bytes);
  EXPECT_EQ(test::first_difference(GetParam(), wanted, found), "");
}

INSTANTIATE_TEST_SUITE_P(DTypes, QuantKernel, testing::Values(DType::kF32, DType::kBF16, DType::kF16, DType::kF64),
                         [](const auto& tested) { return std::string(dtype_name(tested.param)); });

}  // namespace
}  // namespace ttap::cuda
