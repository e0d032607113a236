#include "analyze/diff/sides/joined_bytes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "analyze/values/scan.h"

namespace ttap {

namespace {

SideBytes with_room(DType dtype, std::vector<int64_t> shape) {
  SideBytes whole;
  whole.shape = std::move(shape);
  whole.view = {nullptr, dtype, whole.shape, {}};
  whole.owned = std::make_unique_for_overwrite<std::byte[]>(byte_count(whole.view) + 1);  // + 1: never without address
  whole.view.data = whole.owned.get();
  return whole;
}

// The nearest value, ties to even, of a float format with this many bits of mantissa and this smallest exponent.
double rounded(double value, int mantissa, int smallest, double largest) {
  if (!std::isfinite(value) || value == 0) return value;
  const double step = std::ldexp(1.0, std::max(std::ilogb(value), smallest) - mantissa);
  const double result = std::nearbyint(value / step) * step;
  return std::abs(result) > largest ? std::copysign(std::numeric_limits<double>::infinity(), value) : result;
}

uint16_t to_bf16(double value) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(rounded(value, 7, -126, 0x1.FEp127)));
  return static_cast<uint16_t>(bits >> 16);  // exact; a NaN of ours is quiet, its payload lies high
}

uint16_t to_f16(double value) {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double magnitude = std::abs(rounded(value, 10, -14, 65504));
  if (std::isnan(value)) return sign | 0x7E00;
  if (std::isinf(magnitude)) return sign | 0x7C00;
  if (magnitude < 0x1p-14) return sign | static_cast<uint16_t>(magnitude * 0x1p24);
  const int exponent = std::ilogb(magnitude);
  return static_cast<uint16_t>(sign + ((exponent + 14) << 10) + static_cast<int>(std::ldexp(magnitude, 10 - exponent)));
}

template <DType kDType>
void store(double value, std::byte* target, int part) {
  const auto put = [&](auto narrow) { std::memcpy(target + part * sizeof narrow, &narrow, sizeof narrow); };
  if constexpr (kDType == DType::kF64 || kDType == DType::kC128) put(value);
  if constexpr (kDType == DType::kF32 || kDType == DType::kC64) put(static_cast<float>(value));
  if constexpr (kDType == DType::kF16) put(to_f16(value));
  if constexpr (kDType == DType::kBF16) put(to_bf16(value));
}

template <DType kDType>
void combine(std::span<const std::byte* const> parts, uint64_t count, Combine how, std::byte* target) {
  using Element = ElementType<kDType>;
  const size_t size = size_of(kDType);
  for (uint64_t i = 0; i < count; ++i) {
    if constexpr (Element::kFloat) {
      for (int part = 0; part < Element::kParts; ++part) {
        double total = Element::get(parts[0] + i * size, part);
        for (const std::byte* bytes : parts.subspan(1)) {
          const double value = Element::get(bytes + i * size, part);
          how == Combine::kProduct ? total *= value : total += value;
        }
        if (how == Combine::kAverage) total /= static_cast<double>(parts.size());
        store<kDType>(total, target + i * size, part);
      }
    } else {
      uint64_t total = 0;
      for (const std::byte* bytes : parts) total += static_cast<uint64_t>(Element::get(bytes + i * size, 0));
      std::memcpy(target + i * size, &total, size);  // the low bytes
    }
  }
}

}  // namespace

bool can_combine(DType dtype, Combine how) {
  switch (dtype_info(dtype).kind) {
    case DTypeKind::kBool: return false;
    case DTypeKind::kUnsigned:
    case DTypeKind::kSigned: return how == Combine::kSum;
    case DTypeKind::kComplex: return how != Combine::kProduct;
    case DTypeKind::kFloat: return dtype <= DType::kF64;
  }
  return false;
}

SideBytes concatenated(std::span<const SideBytes> parts, std::vector<int64_t> shape, size_t dim) {
  SideBytes whole = with_room(parts[0].view.dtype, std::move(shape));
  uint64_t blocks = 1;
  for (size_t d = 0; d < dim; ++d) blocks *= static_cast<uint64_t>(whole.shape[d]);
  const uint64_t block_bytes = blocks == 0 ? 0 : byte_count(whole.view) / blocks;
  uint64_t offset = 0;
  for (const SideBytes& part : parts) {
    const LogicalCopy copy(part.view);
    const uint64_t count = blocks == 0 ? 0 : copy.elements() / blocks;
    for (uint64_t block = 0; count != 0 && block < blocks; ++block)
      copy.copy(block * count, count, whole.owned.get() + block * block_bytes + offset);
    offset += count * copy.element_size();
  }
  return whole;
}

SideBytes narrowed(const TensorView& whole, size_t dim, int64_t begin, int64_t size) {
  SideBytes part{.shape = {whole.shape.begin(), whole.shape.end()},
                 .strides = {whole.strides.begin(), whole.strides.end()}};
  if (part.strides.empty()) part.strides = contiguous_strides(whole.shape);
  part.shape[dim] = size;
  const auto offset = begin * part.strides[dim] * static_cast<int64_t>(size_of(whole.dtype));
  part.view = {static_cast<const std::byte*>(whole.data) + offset, whole.dtype, part.shape, part.strides};
  return part;
}

SideBytes combined(std::span<const SideBytes> parts, std::vector<int64_t> shape, Combine how) {
  constexpr uint64_t kPiece = 16 * 1024;
  const DType dtype = parts[0].view.dtype;
  SideBytes whole = with_room(dtype, std::move(shape));
  const uint64_t elements = element_count(whole.view);
  std::vector<LogicalCopy> copies;
  for (const SideBytes& part : parts) copies.emplace_back(part.view);
  const size_t size = size_of(dtype);
  std::vector<std::vector<std::byte>> buffers(parts.size(), std::vector<std::byte>(std::min(kPiece, elements) * size));
  std::vector<const std::byte*> pieces;
  for (const auto& buffer : buffers) pieces.push_back(buffer.data());
  for (uint64_t first = 0; first < elements; first += kPiece) {
    const uint64_t count = std::min(kPiece, elements - first);
    for (size_t i = 0; i < parts.size(); ++i) copies[i].copy(first, count, buffers[i].data());
    with_element_type(dtype, [&]<DType kDType>(ElementType<kDType>) {
      combine<kDType>(pieces, count, how, whole.owned.get() + first * size);
    });
  }
  return whole;
}

SideBytes scaled(const SideBytes& part, double factor) {
  SideBytes whole = with_room(part.view.dtype, {part.view.shape.begin(), part.view.shape.end()});
  const LogicalCopy copy(part.view);
  copy.copy(0, copy.elements(), whole.owned.get());
  with_element_type(part.view.dtype, [&]<DType kDType>(ElementType<kDType>) {
    if constexpr (ElementType<kDType>::kFloat)
      for (uint64_t i = 0; i < copy.elements(); ++i) {
        std::byte* const at = whole.owned.get() + i * size_of(kDType);
        store<kDType>(factor * ElementType<kDType>::get(at, 0), at, 0);
      }
  });
  return whole;
}

bool same_bits(const TensorView& a, const TensorView& b) {
  const LogicalCopy other(b);
  std::vector<std::byte> buffer;
  bool same = true;
  for_each_piece(a, [&](uint64_t first, const std::byte* bytes, uint64_t count) {
    buffer.resize(count * other.element_size());
    other.copy(first, count, buffer.data());
    return same = std::memcmp(bytes, buffer.data(), buffer.size()) == 0;
  });
  return same;
}

}  // namespace ttap
