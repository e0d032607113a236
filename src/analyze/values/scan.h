#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "core/element.h"
#include "core/logical_copy.h"
#include "ttap/tensor_view.h"

// Going over every value of a tensor, whatever its dtype and strides, in bounded memory.
namespace ttap {

// How one element of a dtype is read: signed integers as int64_t, unsigned ones and bool as uint64_t, the rest as
// double, all exact.
template <DType kDType>
struct ElementType {
  static constexpr bool kSigned = kDType >= DType::kI8 && kDType <= DType::kI64;
  static constexpr bool kUnsigned = kDType >= DType::kBool && kDType <= DType::kU64;
  static constexpr bool kFloat = !kSigned && !kUnsigned;
  static constexpr int kParts = kDType == DType::kC64 || kDType == DType::kC128 || kDType == DType::kF4E2M1FNx2 ? 2 : 1;
  using Value = std::conditional_t<kSigned, int64_t, std::conditional_t<kUnsigned, uint64_t, double>>;

  static Value get(const std::byte* element, int part) {
    // The 64-bit integers are the only ones that a double cannot hold.
    if constexpr (kDType == DType::kI64 || kDType == DType::kU64) {
      Value value;
      std::memcpy(&value, element, sizeof value);
      return value;
    } else {
      return static_cast<Value>(value_of(kDType, element, part));
    }
  }
};

// Calls visit(ElementType<dtype>{}).
template <class Visit>
void with_element_type(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kBool: return visit(ElementType<DType::kBool>{});
    case DType::kU8: return visit(ElementType<DType::kU8>{});
    case DType::kU16: return visit(ElementType<DType::kU16>{});
    case DType::kU32: return visit(ElementType<DType::kU32>{});
    case DType::kU64: return visit(ElementType<DType::kU64>{});
    case DType::kI8: return visit(ElementType<DType::kI8>{});
    case DType::kI16: return visit(ElementType<DType::kI16>{});
    case DType::kI32: return visit(ElementType<DType::kI32>{});
    case DType::kI64: return visit(ElementType<DType::kI64>{});
    case DType::kF16: return visit(ElementType<DType::kF16>{});
    case DType::kBF16: return visit(ElementType<DType::kBF16>{});
    case DType::kF32: return visit(ElementType<DType::kF32>{});
    case DType::kF64: return visit(ElementType<DType::kF64>{});
    case DType::kC64: return visit(ElementType<DType::kC64>{});
    case DType::kC128: return visit(ElementType<DType::kC128>{});
    case DType::kF8E4M3FN: return visit(ElementType<DType::kF8E4M3FN>{});
    case DType::kF8E5M2: return visit(ElementType<DType::kF8E5M2>{});
    case DType::kF8E4M3FNUZ: return visit(ElementType<DType::kF8E4M3FNUZ>{});
    case DType::kF8E5M2FNUZ: return visit(ElementType<DType::kF8E5M2FNUZ>{});
    case DType::kF8E8M0FNU: return visit(ElementType<DType::kF8E8M0FNU>{});
    case DType::kF4E2M1FNx2: return visit(ElementType<DType::kF4E2M1FNx2>{});
  }
}

// Calls visit(first element, packed bytes, elements) for piece after piece, in C order, until it returns false.
template <class Visit>
void for_each_piece(const TensorView& view, Visit&& visit) {
  constexpr size_t kPieceBytes = 256 * 1024;
  const LogicalCopy copy(view);
  const uint64_t step = kPieceBytes / copy.element_size();
  std::vector<std::byte> buffer;
  if (!copy.contiguous()) buffer.resize(std::min(step, copy.elements()) * copy.element_size());
  for (uint64_t first = 0; first < copy.elements(); first += step) {
    const uint64_t count = std::min(step, copy.elements() - first);
    const std::byte* bytes = static_cast<const std::byte*>(view.data) + first * copy.element_size();
    if (!copy.contiguous()) {
      copy.copy(first, count, buffer.data());
      bytes = buffer.data();
    }
    if (!visit(first, bytes, count)) return;
  }
}

// Calls visit(element, part, value) for every value, in C order, until it returns false.
template <class Element, class Visit>
void for_each_value(const TensorView& view, Visit&& visit) {
  const size_t size = size_of(view.dtype);
  for_each_piece(view, [&](uint64_t first, const std::byte* bytes, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i)
      for (int part = 0; part < Element::kParts; ++part)
        if (!visit(first + i, part, Element::get(bytes + i * size, part))) return false;
    return true;
  });
}

}  // namespace ttap
