// Every code of every element against a formula in double, and rounding to the nearest of them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "quant/element_codes.h"

namespace ttap {
namespace {

struct SmallFormat {
  QuantElement element;
  int exponent_bits, mantissa_bits, bias;
};

constexpr SmallFormat kFormats[] = {
    {QuantElement::kE4M3, 4, 3, 7},      {QuantElement::kE5M2, 5, 2, 15}, {QuantElement::kE4M3Fnuz, 4, 3, 8},
    {QuantElement::kE5M2Fnuz, 5, 2, 16}, {QuantElement::kE2M3, 2, 3, 1},  {QuantElement::kE3M2, 3, 2, 3},
    {QuantElement::kE2M1, 2, 1, 1},
};

int codes_of(const SmallFormat& format) { return 1 << (1 + format.exponent_bits + format.mantissa_bits); }

// What the format's document says.
double by_formula(const SmallFormat& format, int code) {
  const int sign_bit = format.exponent_bits + format.mantissa_bits;
  const int exponent = (code >> format.mantissa_bits) & ((1 << format.exponent_bits) - 1);
  const int mantissa = code & ((1 << format.mantissa_bits) - 1);
  const bool negative = ((code >> sign_bit) & 1) != 0;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (format.element == QuantElement::kE4M3 && (code & 0x7F) == 0x7F) return nan;
  if (format.element == QuantElement::kE5M2 && exponent == 31)
    return mantissa != 0 ? nan : negative ? -HUGE_VAL : HUGE_VAL;
  if ((format.element == QuantElement::kE4M3Fnuz || format.element == QuantElement::kE5M2Fnuz) && code == 0x80)
    return nan;
  const double steps = 1 << format.mantissa_bits;
  const double magnitude = exponent == 0 ? std::pow(2.0, 1 - format.bias) * mantissa / steps
                                         : std::pow(2.0, exponent - format.bias) * (1 + mantissa / steps);
  return negative ? -magnitude : magnitude;
}

uint8_t encoded(QuantElement element, float value) {
  return with_small_float(element, [&](auto format) { return code_of<decltype(format)>(value); });
}

TEST(Codes, AllValuesFollowTheFormula) {
  for (const SmallFormat& format : kFormats) {
    for (int code = 0; code < codes_of(format); ++code) {
      const double expected = by_formula(format, code);
      const float value = value_of_code(format.element, static_cast<uint8_t>(code));
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(value)) << code;
      } else {
        EXPECT_EQ(value, expected) << code;
        EXPECT_EQ(std::signbit(value), std::signbit(expected)) << code;
      }
    }
  }
}

TEST(Codes, TheSixteenOfE2M1) {
  const float expected[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0F, -0.5, -1, -1.5, -2, -3, -4, -6};
  for (uint8_t code = 0; code < 16; ++code) {
    EXPECT_EQ(value_of_code(QuantElement::kE2M1, code), expected[code]);
    EXPECT_EQ(std::signbit(value_of_code(QuantElement::kE2M1, code)), code >= 8);
  }
}

TEST(Codes, IntegersAreTwosComplement) {
  for (int value = -128; value < 128; ++value)
    EXPECT_EQ(value_of_code(QuantElement::kInt8, static_cast<uint8_t>(value)), value);
  for (int value = -8; value < 8; ++value)
    EXPECT_EQ(value_of_code(QuantElement::kInt4, static_cast<uint8_t>(value & 15)), value);
  EXPECT_EQ(value_of_code(QuantElement::kUInt4, 0xF3), 3);  // bits above do not count
  EXPECT_EQ(value_of_code(QuantElement::kInt4, 0xF8), -8);
}

TEST(Codes, LargestValues) {
  EXPECT_EQ(largest_value(QuantElement::kE4M3), 448);
  EXPECT_EQ(largest_value(QuantElement::kE5M2), 57344);
  EXPECT_EQ(largest_value(QuantElement::kE4M3Fnuz), 240);
  EXPECT_EQ(largest_value(QuantElement::kE5M2Fnuz), 57344);
  EXPECT_EQ(largest_value(QuantElement::kE2M3), 7.5);
  EXPECT_EQ(largest_value(QuantElement::kE3M2), 28);
  EXPECT_EQ(largest_value(QuantElement::kE2M1), 6);
  EXPECT_EQ(largest_value(QuantElement::kInt8), 127);
}

TEST(Codes, EncodingAValueGivesItsCode) {
  for (const SmallFormat& format : kFormats) {
    for (int code = 0; code < codes_of(format); ++code) {
      const float value = value_of_code(format.element, static_cast<uint8_t>(code));
      if (std::isfinite(value)) {
        EXPECT_EQ(encoded(format.element, value), code);
      }
    }
  }
}

TEST(Codes, RoundsToNearestAndTiesToEven) {
  for (const SmallFormat& format : kFormats) {
    const int half = codes_of(format) / 2;
    for (int code = 0; code + 1 < half; ++code) {
      const float low = value_of_code(format.element, static_cast<uint8_t>(code));
      const float high = value_of_code(format.element, static_cast<uint8_t>(code + 1));
      if (!std::isfinite(high)) break;
      const float middle = low + (high - low) / 2;  // exact
      const int even = code % 2 == 0 ? code : code + 1;
      EXPECT_EQ(encoded(format.element, middle), even);
      EXPECT_EQ(encoded(format.element, std::nextafter(middle, low)), code);
      EXPECT_EQ(encoded(format.element, std::nextafter(middle, high)), code + 1);
      // The same on the other side of zero, but that an unsigned zero has no other side.
      const bool to_unsigned_zero = even == 0 && value_of_code(format.element, static_cast<uint8_t>(half)) != 0;
      EXPECT_EQ(encoded(format.element, -middle), to_unsigned_zero ? 0 : even + half);
    }
  }
}

TEST(Codes, Saturate) {
  for (const SmallFormat& format : kFormats) {
    const float largest = largest_value(format.element);
    for (const float beyond : {largest * 1.01F, largest * 1e6F, HUGE_VALF}) {
      EXPECT_EQ(value_of_code(format.element, encoded(format.element, beyond)), largest);
      EXPECT_EQ(value_of_code(format.element, encoded(format.element, -beyond)), -largest);
    }
  }
}

TEST(Codes, NanStaysNanWhereThereIsOne) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const QuantElement element :
       {QuantElement::kE4M3, QuantElement::kE5M2, QuantElement::kE4M3Fnuz, QuantElement::kE5M2Fnuz}) {
    EXPECT_TRUE(std::isnan(value_of_code(element, encoded(element, nan))));
    EXPECT_TRUE(std::isnan(value_of_code(element, encoded(element, -nan))));
  }
}

TEST(Codes, OverflowBeginsHalfAStepBeyondTheLargest) {
  EXPECT_EQ(overflow_edge(QuantElement::kE4M3), 464);
  EXPECT_EQ(overflow_edge(QuantElement::kE5M2), 61440);
  EXPECT_EQ(overflow_edge(QuantElement::kE2M1), 7);
  EXPECT_EQ(overflow_edge(QuantElement::kInt8), 127.5);
}

}  // namespace
}  // namespace ttap
