#include "core/element.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <complex>

#include "not_finite.h"

namespace ttap {
namespace {

// A format by its definition: sign, exponent, mantissa. The special codes are each format's own affair.
double by_definition(unsigned code, int exponent_bits, int mantissa_bits, int bias) {
  const int exponent = static_cast<int>(code >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = static_cast<int>(code) & ((1 << mantissa_bits) - 1);
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return ((code >> (exponent_bits + mantissa_bits)) & 1) != 0 ? -magnitude : magnitude;
}

// The same value, the same sign of zero; any NaN for a NaN.
void expect_same(double actual, double expected, unsigned code) {
  if (std::isnan(expected)) {
    ASSERT_TRUE(std::isnan(actual)) << "code " << code;
  } else {
    ASSERT_EQ(std::bit_cast<uint64_t>(actual), std::bit_cast<uint64_t>(expected)) << "code " << code;
  }
}

double with_sign(unsigned sign, double value) { return sign != 0 ? -value : value; }

TEST(Element, F16) {
  for (unsigned code = 0; code < 65536; ++code) {
    double expected = by_definition(code, 5, 10, 15);
    if ((code & 0x7C00) == 0x7C00) expected = (code & 0x3FF) != 0 ? kNan : with_sign(code >> 15, kInf);
    expect_same(f32_of_f16(static_cast<uint16_t>(code)), expected, code);
  }
}

TEST(Element, BF16) {
  for (unsigned code = 0; code < 65536; ++code) {
    double expected = by_definition(code, 8, 7, 127);
    if ((code & 0x7F80) == 0x7F80) expected = (code & 0x7F) != 0 ? kNan : with_sign(code >> 15, kInf);
    expect_same(f32_of_bf16(static_cast<uint16_t>(code)), expected, code);
  }
}

TEST(Element, E4M3FN) {
  for (unsigned code = 0; code < 256; ++code)
    expect_same(f32_of_e4m3fn(static_cast<uint8_t>(code)), (code & 0x7F) == 0x7F ? kNan : by_definition(code, 4, 3, 7),
                code);
  EXPECT_EQ(f32_of_e4m3fn(0x7E), 448);
}

TEST(Element, E5M2) {
  for (unsigned code = 0; code < 256; ++code) {
    double expected = by_definition(code, 5, 2, 15);
    if ((code & 0x7C) == 0x7C) expected = (code & 3) != 0 ? kNan : with_sign(code >> 7, kInf);
    expect_same(f32_of_e5m2(static_cast<uint8_t>(code)), expected, code);
  }
  EXPECT_EQ(f32_of_e5m2(0x7B), 57344);
}

TEST(Element, E4M3FNUZ) {
  for (unsigned code = 0; code < 256; ++code)
    expect_same(f32_of_e4m3fnuz(static_cast<uint8_t>(code)), code == 0x80 ? kNan : by_definition(code, 4, 3, 8), code);
  EXPECT_EQ(f32_of_e4m3fnuz(0x7F), 240);
}

TEST(Element, E5M2FNUZ) {
  for (unsigned code = 0; code < 256; ++code)
    expect_same(f32_of_e5m2fnuz(static_cast<uint8_t>(code)), code == 0x80 ? kNan : by_definition(code, 5, 2, 16), code);
  EXPECT_EQ(f32_of_e5m2fnuz(0x7F), 57344);
}

TEST(Element, E8M0FNU) {
  for (unsigned code = 0; code < 255; ++code)
    expect_same(f32_of_e8m0fnu(static_cast<uint8_t>(code)), std::ldexp(1.0, static_cast<int>(code) - 127), code);
  expect_same(f32_of_e8m0fnu(255), kNan, 255);
}

TEST(Element, E2M1FN) {
  const double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (unsigned code = 0; code < 16; ++code) {
    expect_same(f32_of_e2m1fn(static_cast<uint8_t>(code)), with_sign(code >> 3, magnitudes[code & 7]), code);
    expect_same(f32_of_e2m1fn(static_cast<uint8_t>(code | 0xF0)), with_sign(code >> 3, magnitudes[code & 7]), code);
  }
}

TEST(Element, ANanOfF16KeepsItsSignAndPayload) {
  EXPECT_EQ(std::bit_cast<uint32_t>(f32_of_f16(0xFE01)), 0xFFC02000u);
  EXPECT_EQ(std::bit_cast<uint32_t>(f32_of_f16(0x7E00)), 0x7FC00000u);
}

template <class T>
double value(DType dtype, T element, int part = 0) {
  // One byte off, since nothing promises that an element is aligned.
  std::byte bytes[sizeof(T) + 1];
  std::memcpy(bytes + 1, &element, sizeof element);
  return value_of(dtype, bytes + 1, part);
}

TEST(ValueOf, ReadsEveryDType) {
  EXPECT_EQ(value(DType::kBool, uint8_t{0}), 0);
  EXPECT_EQ(value(DType::kBool, uint8_t{1}), 1);
  EXPECT_EQ(value(DType::kBool, uint8_t{200}), 1);
  EXPECT_EQ(value(DType::kU8, uint8_t{255}), 255);
  EXPECT_EQ(value(DType::kU16, uint16_t{65535}), 65535);
  EXPECT_EQ(value(DType::kU32, uint32_t{4294967295}), 4294967295.0);
  EXPECT_EQ(value(DType::kU64, ~uint64_t{0}), 18446744073709551616.0);
  EXPECT_EQ(value(DType::kI8, int8_t{-128}), -128);
  EXPECT_EQ(value(DType::kI16, int16_t{-32768}), -32768);
  EXPECT_EQ(value(DType::kI32, INT32_MIN), -2147483648.0);
  EXPECT_EQ(value(DType::kI64, INT64_MIN), -9223372036854775808.0);
  EXPECT_EQ(value(DType::kF16, uint16_t{0x3C00}), 1);
  EXPECT_EQ(value(DType::kBF16, uint16_t{0x3F80}), 1);
  EXPECT_EQ(value(DType::kF32, 0.1f), static_cast<double>(0.1f));
  EXPECT_EQ(value(DType::kF64, 0.1), 0.1);
  EXPECT_EQ(value(DType::kF8E4M3FN, uint8_t{0x38}), 1);
  EXPECT_EQ(value(DType::kF8E5M2, uint8_t{0x3C}), 1);
  EXPECT_EQ(value(DType::kF8E4M3FNUZ, uint8_t{0x40}), 1);
  EXPECT_EQ(value(DType::kF8E5M2FNUZ, uint8_t{0x40}), 1);
  EXPECT_EQ(value(DType::kF8E8M0FNU, uint8_t{128}), 2);
}

TEST(ValueOf, FindsBothPartsOfAnElement) {
  EXPECT_EQ(value(DType::kC64, std::complex<float>(1, -2), 0), 1);
  EXPECT_EQ(value(DType::kC64, std::complex<float>(1, -2), 1), -2);
  EXPECT_EQ(value(DType::kC128, std::complex<double>(3, -4), 0), 3);
  EXPECT_EQ(value(DType::kC128, std::complex<double>(3, -4), 1), -4);
  EXPECT_EQ(value(DType::kF4E2M1FNx2, uint8_t{0xF1}, 0), 0.5);  // the low nibble comes first
  EXPECT_EQ(value(DType::kF4E2M1FNx2, uint8_t{0xF1}, 1), -6);
}

TEST(WidensToF32, HoldsForTheShortFloatsOnly) {
  for (DType dtype : kAllDTypes)
    EXPECT_EQ(widens_to_f32(dtype), dtype_info(dtype).kind == DTypeKind::kFloat && size_of(dtype) <= 2)
        << dtype_name(dtype);
}

}  // namespace
}  // namespace ttap
