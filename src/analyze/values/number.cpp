#include "analyze/values/number.h"

#include <cmath>

#include "analyze/values/scan.h"

namespace ttap {

double to_double(const Number& number) {
  return std::visit([](auto value) { return static_cast<double>(value); }, number);
}

bool is_finite(const Number& number) {
  const auto* value = std::get_if<double>(&number);
  return value == nullptr || std::isfinite(*value);
}

std::vector<int64_t> index_of(uint64_t element, std::span<const int64_t> shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    const auto length = static_cast<uint64_t>(shape[i]);
    index[i] = static_cast<int64_t>(element % length);
    element /= length;
  }
  return index;
}

Number number_at(DType dtype, const void* bytes, int part) {
  Number number;
  with_element_type(dtype,
                    [&](auto element) { number = decltype(element)::get(static_cast<const std::byte*>(bytes), part); });
  return number;
}

bool can_be_nonfinite(DType dtype) {
  const DTypeKind kind = dtype_info(dtype).kind;
  return (kind == DTypeKind::kFloat && dtype != DType::kF4E2M1FNx2) || kind == DTypeKind::kComplex;
}

}  // namespace ttap
