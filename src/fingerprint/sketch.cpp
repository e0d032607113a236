#include "fingerprint/sketch.h"

#include <algorithm>

namespace ttap {
namespace {

template <class Format>
void clear_format(std::byte* data, size_t size) {
  constexpr size_t kSize = sizeof(typename Format::Bits);
  for (size_t i = 0; i < size / kSize; ++i)
    if (!(std::fabs(Format::value(load_bits<Format>(data, i))) < kSketchLimit)) std::memset(data + i * kSize, 0, kSize);
}

}  // namespace

void clear_beyond_limit(std::byte* data, size_t size, DType dtype) {
  switch (dtype) {
    case DType::kF16: return clear_format<F16>(data, size);
    case DType::kBF16: return clear_format<BF16>(data, size);
    case DType::kF32:
    case DType::kC64: return clear_format<F32>(data, size);
    case DType::kF64:
    case DType::kC128: return clear_format<F64>(data, size);
    default: return;
  }
}

double sketched_distance(const Sketch& a, const Sketch& b) {
  double squares = 0;
  for (uint32_t i = 0; i < kSketchBuckets; ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(squares);
}

double sketch_spread(const Sketch& a, const Sketch& b) {
  double squares = 0;
  double fourths = 0;
  for (uint32_t i = 0; i < kSketchBuckets; ++i) {
    const double square = (a[i] - b[i]) * (a[i] - b[i]);
    squares += square;
    fourths += square * square;
  }
  // A bucket is a normal variable: its fourth power is three times the square of its variance, which is what the
  // variance of its square is twice of. The root halves what is off.
  const double variance = squares == 0 ? 0 : 2 * fourths / (3 * squares * squares);
  return std::sqrt(std::max(variance, 2.0 / kSketchBuckets)) / 2;
}

}  // namespace ttap
