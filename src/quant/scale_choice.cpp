#include "quant/scale_choice.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/element.h"
#include "quant/element_codes.h"
#include "quant/geometry.h"
#include "quant/plain_rows.h"

namespace ttap {
namespace {

float rounded_to(DType dtype, float value) {
  if (dtype == DType::kBF16) return f32_of_bf16(plain::bf16_of(value));
  if (dtype == DType::kF16) return f32_of_f16(plain::f16_of(value));
  return value;
}

// A comparison with NaN must leave the NaN.
float clamped(float value, float low, float high) { return value < low ? low : value > high ? high : value; }

uint32_t stored_as(ScaleType type, float& scale) {
  switch (type) {
    case ScaleType::kF16: {
      const uint16_t bits = plain::f16_of(scale);
      scale = f32_of_f16(bits);
      return bits;
    }
    case ScaleType::kBF16: {
      const uint16_t bits = plain::bf16_of(scale);
      scale = f32_of_bf16(bits);
      return bits;
    }
    default: return std::bit_cast<uint32_t>(scale);
  }
}

}  // namespace

ScaleChooser::ScaleChooser(const QuantFormat& format, DType input, const EncodeOptions& options)
    : format_(format), input_(input), options_(options), largest_(largest_value(format.element)) {
  const bool integer = is_integer(format.element);
  divides_ = !integer && format.scale_type != ScaleType::kE8M0 && format.scale_type != ScaleType::kE4M3;
  rounds_ = integer && ((input == DType::kBF16 && format.scale_type == ScaleType::kBF16) ||
                        (input == DType::kF16 && format.scale_type == ScaleType::kF16));
}

Result<ScaleChooser> ScaleChooser::create(const QuantFormat& format, DType input, const EncodeOptions& options) {
  const bool bytes = format.scale_type == ScaleType::kE8M0 || format.scale_type == ScaleType::kE4M3;
  const auto cannot = [&](const char* why) {
    return Error{ErrorCode::kUnsupported, "format '" + format.name + "' cannot be encoded: " + why};
  };
  if (is_integer(format.element)) {
    if (bytes) return cannot("integers have scales of f32, bf16 or f16");
    if (format.zero_point == ZeroPoint::kValue) return cannot("its zero points are values");
    if (format.zero_point == ZeroPoint::kNone && integer_range(format.element).lowest == 0)
      return cannot("unsigned integers need zero points");
  }
  if (format.global != GlobalScale::kNone && format.scale_type != ScaleType::kE4M3)
    return cannot("a global scale goes with block scales of E4M3");
  if (format.scale_divides && bytes) return cannot("a scale of one byte is not a divisor");
  if (format.global_per_row && (format.shared_rows != 1 || format.block_rows != 1 || options.global))
    return cannot("a global scale per row goes with blocks of one row, and is not given");
  return ScaleChooser(format, input, options);
}

float ScaleChooser::rounded(float value) const { return rounded_to(input_, value); }

float ScaleChooser::global(float amax) const {
  if (options_.global) return *options_.global;
  const float whole = largest_ * format_.scale_maximum;
  if (format_.global == GlobalScale::kAmax) return amax;
  // A tensor of zeros has no range to make use of.
  if (format_.global == GlobalScale::kNone || amax == 0) return 1;
  return format_.global == GlobalScale::kDivisor ? whole / amax : amax / whole;
}

BlockScale ScaleChooser::choose(const BlockRange& range, float global) const {
  if (format_.scale_type == ScaleType::kE8M0) return power_of_two(range.amax);
  if (format_.scale_type == ScaleType::kE4M3) return two_level(range.amax, global);
  return is_integer(format_.element) ? affine(range) : real(range.amax);
}

BlockScale ScaleChooser::power_of_two(float amax) const {
  constexpr float kSmallestNormal = 0x1p-126F;
  const auto of_code = [](uint32_t code) { return f32_of_e8m0fnu(static_cast<uint8_t>(code)); };
  BlockScale chosen;
  if (options_.mx_rule == MxScaleRule::kRoundUp) {
    const float wanted = amax / largest_;
    if (std::isnan(wanted)) return {.stored = 255, .factor = wanted, .scale = of_code(255)};
    if (std::isinf(wanted)) {
      chosen.stored = 254;
    } else {
      // In f32: a number just above a power of two may count as that.
      const auto exponent = static_cast<float>(std::log2(static_cast<double>(wanted)));
      chosen.stored = static_cast<uint32_t>(clamped(std::ceil(exponent), -127, 127) + 127);
    }
    // A factor of 1 for the smallest scale is torchao's rule.
    chosen.factor = chosen.stored == 0 ? 1.0F : std::ldexp(1.0F, 127 - static_cast<int>(chosen.stored));
    chosen.scale = of_code(chosen.stored);
    return chosen;
  }
  auto bits = std::bit_cast<uint32_t>(amax);
  if (std::isnan(amax)) return {.stored = 255, .factor = 0, .scale = of_code(255)};
  const int mantissa = with_small_float(format_.element, [](auto format) { return format.kMantissa; });
  if (options_.mx_rule == MxScaleRule::kEven) bits = (bits + (1u << (22 - mantissa))) & 0x7F800000u;
  int exponent = static_cast<int>(bits >> 23);
  if (options_.mx_rule == MxScaleRule::kCeil && (bits & 0x7FFFFF) != 0) ++exponent;
  const int largest_exponent = static_cast<int>(std::bit_cast<uint32_t>(largest_) >> 23) - 127;
  chosen.stored = static_cast<uint32_t>(std::clamp(exponent - largest_exponent, 0, 255));
  chosen.scale = of_code(chosen.stored);
  // The smallest scale is 2^−127, but is divided by as 2^−126: torchao's rule again.
  chosen.factor = chosen.stored == 255 ? 0.0F : 1.0F / std::max(chosen.scale, kSmallestNormal);
  return chosen;
}

BlockScale ScaleChooser::two_level(float amax, float global) const {
  constexpr float kSmallestNormal = 0x1p-6F;
  const float own = amax / largest_;
  if (format_.global == GlobalScale::kNone) {
    const uint8_t code = code_of<CodeE4M3>(clamped(own, kSmallestNormal, 448));
    const float scale = f32_of_e4m3fn(code);
    return {.stored = code, .factor = 1.0F / scale, .scale = scale};
  }
  const float whole = largest_ * format_.scale_maximum;
  const float factor = format_.global == GlobalScale::kFactor    ? global
                       : format_.global == GlobalScale::kDivisor ? 1.0F / global
                       : global == 0                             ? 1.0F
                                                                 : global / whole;
  const uint8_t code = code_of<CodeE4M3>(clamped(own / factor, kSmallestNormal, format_.scale_maximum));
  const float scale = f32_of_e4m3fn(code);
  BlockScale chosen{.stored = code, .factor = (1.0F / factor) / scale};
  chosen.scale = format_.global == GlobalScale::kFactor    ? global * scale
                 : format_.global == GlobalScale::kDivisor ? scale / global
                                                           : scale * global * (1.0F / whole);
  return chosen;
}

uint32_t ScaleChooser::stored(float& scale) const {
  if (!format_.scale_divides) return stored_as(format_.scale_type, scale);
  float divisor = 1.0F / scale;
  const uint32_t bits = stored_as(format_.scale_type, divisor);
  scale = 1.0F / divisor;
  return bits;
}

BlockScale ScaleChooser::real(float amax) const {
  float scale = amax == 0 ? 1.0F : rounded(amax / largest_);
  BlockScale chosen{.stored = stored(scale)};
  chosen.factor = scale;
  chosen.scale = scale;
  return chosen;
}

BlockScale ScaleChooser::affine(const BlockRange& range) const {
  const IntegerRange codes = integer_range(format_.element);
  const auto lowest = static_cast<float>(codes.lowest);
  const auto highest = static_cast<float>(codes.highest);
  const float smallest = options_.smallest_scale > 0 ? rounded(options_.smallest_scale)
                         : input_ == DType::kF16     ? 0x1p-14F
                                                     : 0x1p-126F;
  const auto at_least = [&](float value) { return value < smallest ? smallest : value; };
  BlockScale chosen;
  float scale;
  if (format_.zero_point != ZeroPoint::kInteger) {
    chosen.zero = format_.zero_point == ZeroPoint::kMiddle ? middle_of(format_.element) : 0;
    scale = at_least(rounded(range.amax / ((highest - lowest) / 2)));
  } else {
    const float below = std::min(range.lowest, 0.0F);
    const float above = std::max(range.highest, 0.0F);
    scale = at_least(rounded(rounded(above - below) / (highest - lowest)));
    chosen.zero = clamped(rounded(lowest - std::nearbyint(rounded(below / scale))), lowest, highest);
    if (std::isnan(range.amax)) scale = range.amax;
    if (std::isnan(range.amax) || std::isnan(chosen.zero)) chosen.zero = 0;  // infinite below: no code is right
  }
  chosen.stored = stored(scale);
  chosen.scale = scale;
  chosen.factor = rounds_ ? rounded(1.0F / scale) : 1.0F / scale;
  return chosen;
}

}  // namespace ttap
