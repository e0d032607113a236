#include "analyze/compare/pair_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "analyze/values/scan.h"

namespace ttap {
namespace {

template <class T>
void widen_integers(const std::byte* from, size_t count, double* to) {
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    to[i] = static_cast<double>(value);
  }
}

void widen_f64(const std::byte* from, size_t count, double* to) { std::memcpy(to, from, count * sizeof(double)); }

// A byte has few values.
template <DType kDType>
void widen_bytes(const std::byte* from, size_t count, double* to) {
  static const auto values = [] {
    std::array<double, 256> table;
    for (size_t i = 0; i < table.size(); ++i) {
      const auto byte = static_cast<std::byte>(i);
      table[i] = value_of(kDType, &byte);
    }
    return table;
  }();
  for (size_t i = 0; i < count; ++i) to[i] = values[static_cast<uint8_t>(from[i])];
}

// `count` is of values.
void widen_f4(const std::byte* from, size_t count, double* to) {
  for (size_t i = 0; i < count; ++i) to[i] = value_of(DType::kF4E2M1FNx2, from + i / 2, static_cast<int>(i % 2));
}

auto widening(DType dtype, const PairKernels& kernels) {
  switch (dtype) {
    case DType::kBool: return widen_bytes<DType::kBool>;
    case DType::kU8: return widen_bytes<DType::kU8>;
    case DType::kI8: return widen_bytes<DType::kI8>;
    case DType::kU16: return widen_integers<uint16_t>;
    case DType::kI16: return widen_integers<int16_t>;
    case DType::kU32: return widen_integers<uint32_t>;
    case DType::kI32: return widen_integers<int32_t>;
    case DType::kU64: return widen_integers<uint64_t>;
    case DType::kI64: return widen_integers<int64_t>;
    case DType::kF16: return kernels.widen_f16;
    case DType::kBF16: return kernels.widen_bf16;
    case DType::kF32:
    case DType::kC64: return kernels.widen_f32;
    case DType::kF64:
    case DType::kC128: return widen_f64;
    case DType::kF8E4M3FN: return widen_bytes<DType::kF8E4M3FN>;
    case DType::kF8E5M2: return widen_bytes<DType::kF8E5M2>;
    case DType::kF8E4M3FNUZ: return widen_bytes<DType::kF8E4M3FNUZ>;
    case DType::kF8E5M2FNUZ: return widen_bytes<DType::kF8E5M2FNUZ>;
    case DType::kF8E8M0FNU: return widen_bytes<DType::kF8E8M0FNU>;
    case DType::kF4E2M1FNx2: return widen_f4;
  }
  return widen_f64;
}

// Each value followed by a zero, in place.
void spread(double* values, size_t count) {
  for (size_t i = count; i-- > 0;) {
    values[2 * i] = values[i];
    values[2 * i + 1] = 0;
  }
}

// Exact but for the last rounding, and the same on every machine: a long double has 64 bits on one and 113 on another.
template <class Integer>
double distance_to_float(Integer n, double x) {
  if (!(std::fabs(x) < 0x1p64)) return std::fabs(x - static_cast<double>(n));
  const double whole = std::trunc(x);
  return std::fabs(static_cast<double>(static_cast<__int128>(n) - static_cast<__int128>(whole)) - (x - whole));
}

}  // namespace

double distance_of(const Number& a, const Number& b) {
  return std::visit(
      [](auto x, auto y) {
        constexpr bool kFloatX = std::is_same_v<decltype(x), double>;
        constexpr bool kFloatY = std::is_same_v<decltype(y), double>;
        if constexpr (kFloatX && kFloatY) {
          return std::fabs(y - x);
        } else if constexpr (kFloatX) {
          return distance_to_float(y, x);
        } else if constexpr (kFloatY) {
          return distance_to_float(x, y);
        } else {
          const __int128 difference = static_cast<__int128>(y) - static_cast<__int128>(x);
          return static_cast<double>(difference < 0 ? -difference : difference);
        }
      },
      a, b);
}

PairReader::SideOfPair::SideOfPair(const TensorView& view, const PairKernels& kernels)
    : copy(view),
      data(static_cast<const std::byte*>(view.data)),
      dtype(view.dtype),
      parts(dtype_info(view.dtype).values),
      is_float(dtype_info(view.dtype).kind == DTypeKind::kFloat || dtype_info(view.dtype).kind == DTypeKind::kComplex),
      is_wide(view.dtype == DType::kI64 || view.dtype == DType::kU64),
      widen(widening(view.dtype, kernels)) {}

const std::byte* PairReader::SideOfPair::bytes(uint64_t first, size_t count, std::byte* room) const {
  if (copy.contiguous()) return data + first * copy.element_size();
  copy.copy(first, count, room);
  return room;
}

PairReader::PairReader(const TensorView& a, const TensorView& b, const PairKernels& kernels)
    : a_(a, kernels), b_(b, kernels), kernels_(&kernels), parts_(std::max(a_.parts, b_.parts)) {
  TTAP_CHECK(std::ranges::equal(a.shape, b.shape));
}

PairPiece PairReader::read(uint64_t first, size_t count, Room& room) const {
  const size_t elements = count / parts_;
  const std::byte* bytes_a = a_.bytes(first / parts_, elements, room.bytes_a);
  const std::byte* bytes_b = b_.bytes(first / parts_, elements, room.bytes_b);
  a_.widen(bytes_a, elements * a_.parts, room.a);
  b_.widen(bytes_b, elements * b_.parts, room.b);
  if (a_.parts < parts_) spread(room.a, elements);
  if (b_.parts < parts_) spread(room.b, elements);
  std::fill_n(room.a + count, kPiecePadding, 0.0);
  std::fill_n(room.b + count, kPiecePadding, 0.0);
  PairPiece piece{room.a, room.b, nullptr, count, bytes_a, bytes_b};
  if (a_.is_wide || b_.is_wide) {
    find_distances(bytes_a, bytes_b, elements, room);
    std::fill_n(room.distance + count, kPiecePadding, 0.0);
    piece.distance = room.distance;
  }
  return piece;
}

// Where doubles do not hold what the integers hold.
void PairReader::find_distances(const std::byte* a, const std::byte* b, size_t elements, Room& room) const {
  if (a_.dtype == b_.dtype) {
    (a_.dtype == DType::kI64 ? kernels_->distance_i64 : kernels_->distance_u64)(a, b, elements, room.distance);
    return;
  }
  const size_t count = elements * parts_;
  // The exact values of one side as it is written where it is a 64-bit integer, from the doubles where not.
  const auto load = [&]<class T>(T, const std::byte* bytes, size_t i) {
    T value = 0;  // of the second part
    if (i % parts_ == 0) std::memcpy(&value, bytes + i / parts_ * sizeof value, sizeof value);
    return value;
  };
  const auto number = [&](const SideOfPair& side, const std::byte* bytes, const double* doubles, size_t i) -> Number {
    if (side.dtype == DType::kI64) return load(int64_t{}, bytes, i);
    if (side.dtype == DType::kU64) return load(uint64_t{}, bytes, i);
    if (side.is_float) return doubles[i];
    return static_cast<int64_t>(doubles[i]);
  };
  for (size_t i = 0; i < count; ++i) room.distance[i] = distance_of(number(a_, a, room.a, i), number(b_, b, room.b, i));
}

WorstPair PairReader::at(uint64_t value) const {
  const uint64_t element = value / parts_;
  const auto part = static_cast<uint8_t>(value % parts_);
  const auto number = [&](const SideOfPair& side) -> Number {
    std::array<std::byte, 16> bytes;
    if (part >= side.parts) return 0.0;
    side.copy.copy(element, 1, bytes.data());
    return number_at(side.dtype, bytes.data(), part);
  };
  return {element, part, number(a_), number(b_)};
}

}  // namespace ttap
