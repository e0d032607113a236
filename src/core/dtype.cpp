#include "ttap/dtype.h"

#include "ttap/result.h"

namespace ttap {
namespace {

// Indexed by the DType's number.
constexpr DTypeInfo kInfos[] = {
    {"", DTypeKind::kBool, 0, 0},
    {"bool", DTypeKind::kBool, 1, 1},
    {"u8", DTypeKind::kUnsigned, 1, 1},
    {"u16", DTypeKind::kUnsigned, 2, 1},
    {"u32", DTypeKind::kUnsigned, 4, 1},
    {"u64", DTypeKind::kUnsigned, 8, 1},
    {"i8", DTypeKind::kSigned, 1, 1},
    {"i16", DTypeKind::kSigned, 2, 1},
    {"i32", DTypeKind::kSigned, 4, 1},
    {"i64", DTypeKind::kSigned, 8, 1},
    {"f16", DTypeKind::kFloat, 2, 1},
    {"bf16", DTypeKind::kFloat, 2, 1},
    {"f32", DTypeKind::kFloat, 4, 1},
    {"f64", DTypeKind::kFloat, 8, 1},
    {"c64", DTypeKind::kComplex, 8, 2},
    {"c128", DTypeKind::kComplex, 16, 2},
    {"f8_e4m3fn", DTypeKind::kFloat, 1, 1},
    {"f8_e5m2", DTypeKind::kFloat, 1, 1},
    {"f8_e4m3fnuz", DTypeKind::kFloat, 1, 1},
    {"f8_e5m2fnuz", DTypeKind::kFloat, 1, 1},
    {"f8_e8m0fnu", DTypeKind::kFloat, 1, 1},
    {"f4_e2m1fn_x2", DTypeKind::kFloat, 1, 2},
};
static_assert(std::size(kInfos) == std::size(kAllDTypes) + 1);

}  // namespace

const DTypeInfo& dtype_info(DType dtype) {
  TTAP_CHECK(dtype_from_number(static_cast<uint8_t>(dtype)).has_value());
  return kInfos[static_cast<uint8_t>(dtype)];
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (DType dtype : kAllDTypes)
    if (dtype_info(dtype).name == name) return dtype;
  return std::nullopt;
}

std::optional<DType> dtype_from_number(uint8_t number) {
  if (number == 0 || number >= std::size(kInfos)) return std::nullopt;
  return static_cast<DType>(number);
}

}  // namespace ttap
