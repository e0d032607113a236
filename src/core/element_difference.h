#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/element.h"
#include "ttap/compare.h"
#include "ttap/dtype.h"

// Two elements of one format held against each other, with the one definition of "close", for CPU and GPU alike.
namespace ttap {

struct ElementDifference {
  bool close = true;
  double distance = 0;  // |actual − expected|; infinite where that is no number, and they do not agree
};

namespace detail {

template <class T>
TTAP_HD inline T element_as(const void* element) {
  T value;
  memcpy(&value, element, sizeof value);
  return value;
}

template <class Wide>
TTAP_HD inline ElementDifference exact_difference(Wide actual, Wide expected) {
  if (is_close(actual, expected)) return {};
  // In unsigned arithmetic the distance of any two is exact.
  const auto a = static_cast<uint64_t>(actual);
  const auto b = static_cast<uint64_t>(expected);
  return {false, static_cast<double>(actual < expected ? b - a : a - b)};
}

TTAP_HD inline ElementDifference value_difference(double actual, double expected, const Tolerance& tolerance) {
  const bool close = is_close(actual, expected, tolerance);
  const double distance = actual < expected ? expected - actual : actual - expected;
  if (distance == distance) return {close, distance};
  return {close, close ? 0.0 : static_cast<double>(INFINITY)};
}

}  // namespace detail

// Integers and truth values exactly; the two values of a complex or a packed element each for itself.
TTAP_HD inline ElementDifference difference_of(DType dtype, const void* actual, const void* expected,
                                               const Tolerance& tolerance) {
  using detail::element_as;
  using detail::exact_difference;
  const auto as_signed = [&](auto sample) {
    using T = decltype(sample);
    return exact_difference<int64_t>(element_as<T>(actual), element_as<T>(expected));
  };
  const auto as_unsigned = [&](auto sample) {
    using T = decltype(sample);
    return exact_difference<uint64_t>(element_as<T>(actual), element_as<T>(expected));
  };
  switch (dtype) {
    case DType::kBool:
      return exact_difference<uint64_t>(element_as<uint8_t>(actual) != 0, element_as<uint8_t>(expected) != 0);
    case DType::kU8: return as_unsigned(uint8_t{});
    case DType::kU16: return as_unsigned(uint16_t{});
    case DType::kU32: return as_unsigned(uint32_t{});
    case DType::kU64: return as_unsigned(uint64_t{});
    case DType::kI8: return as_signed(int8_t{});
    case DType::kI16: return as_signed(int16_t{});
    case DType::kI32: return as_signed(int32_t{});
    case DType::kI64: return as_signed(int64_t{});
    default: break;
  }
  ElementDifference first = detail::value_difference(value_of(dtype, actual), value_of(dtype, expected), tolerance);
  if (dtype != DType::kC64 && dtype != DType::kC128 && dtype != DType::kF4E2M1FNx2) return first;
  const ElementDifference second =
      detail::value_difference(value_of(dtype, actual, 1), value_of(dtype, expected, 1), tolerance);
  first.close = first.close && second.close;
  if (second.distance > first.distance) first.distance = second.distance;
  return first;
}

}  // namespace ttap
