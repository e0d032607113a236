#pragma once

#include <algorithm>
#include <cstdint>

#include "core/element.h"
#include "ttap/dtype.h"

// What the codes of the one-byte formats mean, looked up: working it out takes more instructions, which have to be
// fetched, than most small tensors need for everything else.
namespace ttap::cuda {

struct ByteValues {
  static constexpr uint32_t kFormats = static_cast<uint32_t>(*std::ranges::max_element(kAllDTypes)) + 1;
  float of[kFormats][256] = {};          // by dtype; of the lower half of a byte that is two values
  float smallest_normal[kFormats] = {};  // 0 where nothing is subnormal

  template <class Decode>
  constexpr void set(DType dtype, const Decode& decode, uint32_t smallest_normal_code = 0) {
    const auto format = static_cast<uint32_t>(dtype);
    for (uint32_t code = 0; code < 256; ++code) of[format][code] = decode(static_cast<uint8_t>(code));
    if (smallest_normal_code != 0) smallest_normal[format] = of[format][smallest_normal_code];
  }
};

constexpr ByteValues make_byte_values() {
  ByteValues values;
  values.set(DType::kBool, [](uint8_t code) { return code != 0 ? 1.0F : 0.0F; });
  values.set(DType::kU8, [](uint8_t code) { return static_cast<float>(code); });
  values.set(DType::kI8, [](uint8_t code) { return static_cast<float>(static_cast<int8_t>(code)); });
  values.set(DType::kF8E4M3FN, f32_of_e4m3fn, 0x08);
  values.set(DType::kF8E4M3FNUZ, f32_of_e4m3fnuz, 0x08);
  values.set(DType::kF8E5M2, f32_of_e5m2, 0x04);
  values.set(DType::kF8E5M2FNUZ, f32_of_e5m2fnuz, 0x04);
  values.set(DType::kF8E8M0FNU, f32_of_e8m0fnu);
  values.set(DType::kF4E2M1FNx2, f32_of_e2m1fn, 0x02);
  return values;
}

}  // namespace ttap::cuda
