#include "ttap/dlpack.h"

#include <fmt/format.h>

#include <optional>

namespace ttap {
namespace {

// Codes that DLPack 0.6, the header of the distribution, does not name yet. The numbers are its ABI.
enum DLPackCode : uint8_t {
  kDLPackBool = 6,
  kDLPackE4M3FN = 10,
  kDLPackE4M3FNUZ = 11,
  kDLPackE5M2 = 12,
  kDLPackE5M2FNUZ = 13,
  kDLPackE8M0FNU = 14,
  kDLPackE2M1FN = 17,
};

std::optional<DType> dtype_of(DLDataType type) {
  const auto pick = [&](std::initializer_list<std::pair<int, DType>> by_bits) -> std::optional<DType> {
    for (auto [bits, dtype] : by_bits)
      if (type.bits == bits && type.lanes == 1) return dtype;
    return std::nullopt;
  };
  switch (static_cast<uint8_t>(type.code)) {
    case kDLUInt: return pick({{8, DType::kU8}, {16, DType::kU16}, {32, DType::kU32}, {64, DType::kU64}});
    case kDLInt: return pick({{8, DType::kI8}, {16, DType::kI16}, {32, DType::kI32}, {64, DType::kI64}});
    case kDLFloat: return pick({{16, DType::kF16}, {32, DType::kF32}, {64, DType::kF64}});
    case kDLBfloat: return pick({{16, DType::kBF16}});
    case kDLComplex: return pick({{64, DType::kC64}, {128, DType::kC128}});
    case kDLPackBool: return pick({{8, DType::kBool}});
    case kDLPackE4M3FN: return pick({{8, DType::kF8E4M3FN}});
    case kDLPackE4M3FNUZ: return pick({{8, DType::kF8E4M3FNUZ}});
    case kDLPackE5M2: return pick({{8, DType::kF8E5M2}});
    case kDLPackE5M2FNUZ: return pick({{8, DType::kF8E5M2FNUZ}});
    case kDLPackE8M0FNU: return pick({{8, DType::kF8E8M0FNU}});
    case kDLPackE2M1FN:
      if (type.bits == 4 && type.lanes == 2) return DType::kF4E2M1FNx2;
      return std::nullopt;
    default: return std::nullopt;
  }
}

}  // namespace

Result<TensorView> view_of(const DLTensor& tensor) {
  const int device = static_cast<int>(tensor.device.device_type);
  const bool readable = device == kDLCPU || device == kDLCUDAHost || device == kDLROCMHost || device == kDLCUDAManaged;
  if (!readable)
    return Error{.code = ErrorCode::kUnsupported,
                 .message = fmt::format("DLPack device type {} is not readable from the CPU", device),
                 .hint = "copy the tensor to the CPU first"};
  const auto dtype = dtype_of(tensor.dtype);
  if (!dtype)
    return Error{ErrorCode::kUnsupported,
                 fmt::format("DLPack dtype with code {}, {} bits, {} lanes is not one TensorTap knows",
                             static_cast<int>(tensor.dtype.code), static_cast<int>(tensor.dtype.bits),
                             static_cast<int>(tensor.dtype.lanes))};
  if (tensor.ndim < 0 || (tensor.ndim > 0 && tensor.shape == nullptr))
    return Error{ErrorCode::kInvalidArgument, "DLPack tensor without a shape"};
  const auto ndim = static_cast<size_t>(tensor.ndim);
  TensorView view;
  view.data = tensor.data == nullptr ? nullptr : static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  view.dtype = *dtype;
  view.shape = {tensor.shape, ndim};
  if (tensor.strides != nullptr) view.strides = {tensor.strides, ndim};
  TTAP_TRY(validate(view));
  return view;
}

}  // namespace ttap
