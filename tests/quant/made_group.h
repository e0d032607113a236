#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "ttap/quant.h"

namespace ttap {

inline QuantFormat format_named(const std::string& name) {
  auto format = quant_format(name);
  EXPECT_TRUE(format.ok()) << name;
  return *format;
}

// A quantized tensor made by hand, part by part.
struct MadeGroup {
  QuantFormat format;
  std::vector<int64_t> shape;
  std::vector<uint8_t> payload = {};
  std::vector<uint8_t> scale = {};  // bytes, of whatever type
  std::vector<int64_t> scale_shape = {};
  std::vector<float> global = {};
  std::vector<int8_t> zero_point = {};

  void set_scales(const std::vector<float>& values) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
    scale.assign(bytes, bytes + values.size() * sizeof(float));
  }

  // Refers to this.
  QuantGroup group() {
    payload_shape = {static_cast<int64_t>(payload.size())};
    global_shape = {static_cast<int64_t>(global.size())};
    zero_shape = {static_cast<int64_t>(zero_point.size())};
    const DType scale_dtype = format.scale_type == ScaleType::kF32 ? DType::kF32 : DType::kU8;
    QuantGroup made{.format = format, .shape = shape, .payload = {payload.data(), DType::kU8, payload_shape, {}}};
    made.scale = TensorView{scale.data(), scale_dtype, scale_shape, {}};
    if (!global.empty()) made.global = TensorView{global.data(), DType::kF32, global_shape, {}};
    if (!zero_point.empty()) made.zero_point = TensorView{zero_point.data(), DType::kI8, zero_shape, {}};
    return made;
  }

  std::vector<int64_t> payload_shape = {}, global_shape = {}, zero_shape = {};
};

inline size_t count_of(const std::vector<int64_t>& shape) {
  size_t count = 1;
  for (const int64_t length : shape) count *= static_cast<size_t>(length);
  return count;
}

template <class T = float>
std::vector<T> decoded(const QuantGroup& group, DType dtype = DType::kF32) {
  std::vector<T> values(count_of({group.shape.begin(), group.shape.end()}));
  const Status status = decode(group, dtype, values.data());
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().describe());
  return values;
}

inline std::vector<uint8_t> random_bytes(size_t count, unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() >> 8);
  return bytes;
}

inline std::vector<float> normal_values(size_t count, unsigned seed = 1) {
  std::minstd_rand random(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> values(count);
  for (float& value : values) value = distribution(random);
  return values;
}

// Equal bits, or both NaN.
template <class T>
testing::AssertionResult same_values(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << a.size() << " and " << b.size() << " values";
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0)
      return testing::AssertionFailure() << "value " << i << ": " << a[i] << " and " << b[i];
  }
  return testing::AssertionSuccess();
}

}  // namespace ttap
