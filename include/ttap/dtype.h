#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ttap/api.h"

namespace ttap {

// The numbers are part of the file format (docs/format.md): never renumber, only append.
enum class DType : uint8_t {
  kBool = 1,
  kU8 = 2,
  kU16 = 3,
  kU32 = 4,
  kU64 = 5,
  kI8 = 6,
  kI16 = 7,
  kI32 = 8,
  kI64 = 9,
  kF16 = 10,
  kBF16 = 11,
  kF32 = 12,
  kF64 = 13,
  kC64 = 14,
  kC128 = 15,
  kF8E4M3FN = 16,
  kF8E5M2 = 17,
  kF8E4M3FNUZ = 18,
  kF8E5M2FNUZ = 19,
  kF8E8M0FNU = 20,
  kF4E2M1FNx2 = 21,  // two values a byte, low nibble first; one element is one byte
};

inline constexpr DType kAllDTypes[] = {
    DType::kBool,       DType::kU8,        DType::kU16,       DType::kU32,      DType::kU64,    DType::kI8,
    DType::kI16,        DType::kI32,       DType::kI64,       DType::kF16,      DType::kBF16,   DType::kF32,
    DType::kF64,        DType::kC64,       DType::kC128,      DType::kF8E4M3FN, DType::kF8E5M2, DType::kF8E4M3FNUZ,
    DType::kF8E5M2FNUZ, DType::kF8E8M0FNU, DType::kF4E2M1FNx2};

enum class DTypeKind : uint8_t { kBool, kUnsigned, kSigned, kFloat, kComplex };

struct DTypeInfo {
  std::string_view name;  // as in `ttap ls`: "bf16", "f8_e4m3fn", …
  DTypeKind kind;
  uint8_t size;    // bytes of one element
  uint8_t values;  // real values in one element: 2 for complex and for packed f4, else 1
};

TTAP_API const DTypeInfo& dtype_info(DType dtype);
inline std::string_view dtype_name(DType dtype) { return dtype_info(dtype).name; }
inline size_t size_of(DType dtype) { return dtype_info(dtype).size; }

// From its TensorTap name; nothing for an unknown one.
TTAP_API std::optional<DType> dtype_from_name(std::string_view name);
// From its number in a file; nothing for a number that is not assigned.
TTAP_API std::optional<DType> dtype_from_number(uint8_t number);

}  // namespace ttap
