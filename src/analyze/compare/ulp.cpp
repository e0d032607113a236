#include "analyze/compare/ulp.h"

#include <tuple>

#include "analyze/compare/measures.h"

namespace ttap {
namespace {

bool is_float(DType dtype) {
  return dtype_info(dtype).kind == DTypeKind::kFloat || dtype_info(dtype).kind == DTypeKind::kComplex;
}

// What a value can tell apart: bits, and then how many values there are.
std::tuple<bool, int, uint64_t> fineness(DType dtype) {
  if (is_float(dtype)) {
    const UlpScale scale = ulp_scale(dtype);
    return {false, scale.mantissa, scale.largest};
  }
  const DTypeKind kind = dtype_info(dtype).kind;
  const int bits = kind == DTypeKind::kBool ? 1 : 8 * dtype_info(dtype).size - (kind == DTypeKind::kSigned ? 1 : 0);
  return {true, bits, 0};
}

}  // namespace

UlpScale ulp_scale(DType dtype) {
  switch (dtype) {
    case DType::kF16: return {10, -14, 0x7BFF};
    case DType::kBF16: return {7, -126, 0x7F7F};
    case DType::kF32:
    case DType::kC64: return {23, -126, 0x7F7FFFFF};
    case DType::kF64:
    case DType::kC128: return {};
    case DType::kF8E4M3FN: return {3, -6, 0x7E};
    case DType::kF8E5M2: return {2, -14, 0x7B};
    case DType::kF8E4M3FNUZ: return {3, -7, 0x7F};
    case DType::kF8E5M2FNUZ: return {2, -15, 0x7F};
    case DType::kF8E8M0FNU: return {0, -127, 0xFF};
    case DType::kF4E2M1FNx2: return {1, 0, 7};
    default: break;
  }
  TTAP_CHECK(is_float(dtype));
  return {};
}

DType coarser(DType a, DType b) { return fineness(b) < fineness(a) ? b : a; }

}  // namespace ttap
