#include "ttap/dlpack.h"

#include <gtest/gtest.h>

namespace ttap {
namespace {

struct Tensor {
  int64_t shape[2] = {2, 3};
  int64_t strides[2] = {1, 2};
  float data[7] = {};
  DLTensor dl{};

  Tensor() {
    dl.data = data;
    dl.device = {kDLCPU, 0};
    dl.ndim = 2;
    dl.dtype = {kDLFloat, 32, 1};
    dl.shape = shape;
    dl.strides = strides;
  }
};

TEST(DLPack, PointsIntoTheTensor) {
  const Tensor tensor;
  const auto view = view_of(tensor.dl);
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->data, tensor.data);
  EXPECT_EQ(view->dtype, DType::kF32);
  EXPECT_EQ(view->shape.data(), tensor.shape);
  EXPECT_EQ(view->strides.data(), tensor.strides);
  EXPECT_EQ(view->ndim(), 2u);
}

TEST(DLPack, NoStridesMeansCOrder) {
  Tensor tensor;
  tensor.dl.strides = nullptr;
  const auto view = view_of(tensor.dl);
  ASSERT_TRUE(view.ok());
  EXPECT_TRUE(view->strides.empty());
  EXPECT_TRUE(is_contiguous(*view));
}

TEST(DLPack, TheByteOffsetIsApplied) {
  Tensor tensor;
  tensor.dl.byte_offset = 4;
  EXPECT_EQ(view_of(tensor.dl)->data, tensor.data + 1);
}

TEST(DLPack, AScalarNeedsNoShape) {
  Tensor tensor;
  tensor.dl.ndim = 0;
  tensor.dl.shape = nullptr;
  tensor.dl.strides = nullptr;
  const auto view = view_of(tensor.dl);
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(element_count(*view), 1u);
}

TEST(DLPack, EveryDTypeHasItsCode) {
  const std::pair<DLDataType, DType> codes[] = {
      {{6, 8, 1}, DType::kBool},        {{1, 8, 1}, DType::kU8},          {{1, 16, 1}, DType::kU16},
      {{1, 32, 1}, DType::kU32},        {{1, 64, 1}, DType::kU64},        {{0, 8, 1}, DType::kI8},
      {{0, 16, 1}, DType::kI16},        {{0, 32, 1}, DType::kI32},        {{0, 64, 1}, DType::kI64},
      {{2, 16, 1}, DType::kF16},        {{4, 16, 1}, DType::kBF16},       {{2, 32, 1}, DType::kF32},
      {{2, 64, 1}, DType::kF64},        {{5, 64, 1}, DType::kC64},        {{5, 128, 1}, DType::kC128},
      {{10, 8, 1}, DType::kF8E4M3FN},   {{11, 8, 1}, DType::kF8E4M3FNUZ}, {{12, 8, 1}, DType::kF8E5M2},
      {{13, 8, 1}, DType::kF8E5M2FNUZ}, {{14, 8, 1}, DType::kF8E8M0FNU},  {{17, 4, 2}, DType::kF4E2M1FNx2},
  };
  ASSERT_EQ(std::size(codes), std::size(kAllDTypes));
  alignas(16) std::byte element[16] = {};
  for (const auto& [code, dtype] : codes) {
    Tensor tensor;
    tensor.dl.data = element;
    tensor.dl.ndim = 0;
    tensor.dl.dtype = code;
    const auto view = view_of(tensor.dl);
    ASSERT_TRUE(view.ok()) << dtype_name(dtype);
    EXPECT_EQ(view->dtype, dtype);
  }
}

TEST(DLPack, OtherDTypesAreNamedInTheError) {
  for (DLDataType type : {DLDataType{3, 64, 1}, DLDataType{2, 8, 1}, DLDataType{2, 32, 4}, DLDataType{17, 4, 1},
                          DLDataType{7, 8, 1}, DLDataType{99, 8, 1}, DLDataType{0, 4, 1}}) {
    Tensor tensor;
    tensor.dl.dtype = type;
    const auto view = view_of(tensor.dl);
    ASSERT_FALSE(view.ok());
    EXPECT_EQ(view.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(view.error().message.find("code " + std::to_string(type.code)), std::string::npos);
  }
}

TEST(DLPack, OnlyMemoryTheCpuCanReadIsTaken) {
  for (DLDeviceType device : {kDLCPU, kDLCUDAHost, kDLROCMHost, kDLCUDAManaged}) {
    Tensor tensor;
    tensor.dl.device.device_type = device;
    EXPECT_TRUE(view_of(tensor.dl).ok()) << device;
  }
  for (DLDeviceType device : {kDLCUDA, kDLROCM, kDLMetal, kDLVulkan, kDLExtDev}) {
    Tensor tensor;
    tensor.dl.device.device_type = device;
    const auto view = view_of(tensor.dl);
    ASSERT_FALSE(view.ok()) << device;
    EXPECT_EQ(view.error().code, ErrorCode::kUnsupported);
    EXPECT_FALSE(view.error().hint.empty());
  }
}

TEST(DLPack, WhatCannotBeATensorIsRefused) {
  const auto refused = [](auto spoil) {
    Tensor tensor;
    spoil(tensor);
    return !view_of(tensor.dl).ok();
  };
  EXPECT_TRUE(refused([](Tensor& t) { t.dl.shape = nullptr; }));
  EXPECT_TRUE(refused([](Tensor& t) { t.dl.ndim = -1; }));
  EXPECT_TRUE(refused([](Tensor& t) { t.dl.data = nullptr; }));
  EXPECT_TRUE(refused([](Tensor& t) { t.shape[0] = -2; }));
  EXPECT_TRUE(refused([](Tensor& t) { t.strides[0] = INT64_MAX; }));
}

}  // namespace
}  // namespace ttap
