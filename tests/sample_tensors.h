#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/logical_copy.h"
#include "core/mix64.h"
#include "ttap/dtype.h"
#include "ttap/tensor_view.h"

// Every dtype in every layout: what each file format must give back bit for bit.
namespace ttap::test {

struct SampleTensor {
  std::string name;  // "<dtype>.<layout>"
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;    // in elements; empty for C order
  std::vector<std::byte> storage;  // larger than the view where the layout says so
  size_t offset;                   // of element [0, 0, …] in it, in elements

  TensorView view() const { return {storage.data() + offset * size_of(dtype), dtype, shape, strides}; }
};

struct SampleLayout {
  const char* name;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  size_t offset;
  size_t stored;  // elements of the storage
};

inline const std::vector<SampleLayout>& sample_layouts() {
  static const std::vector<SampleLayout> layouts = {
      {"scalar", {}, {}, 0, 1},
      {"empty", {3, 0, 2}, {}, 0, 0},
      {"vector", {7}, {}, 0, 7},
      {"transposed", {3, 4}, {1, 3}, 0, 12},
      {"stepped", {3, 2}, {10, 3}, 4, 40},  // x[a::b, c::d] of a 4 × 10 matrix
      {"expanded", {4, 3, 2}, {2, 0, 1}, 0, 8},
      {"five_d", {2, 1, 3, 2, 2}, {}, 0, 24},
  };
  return layouts;
}

// Pseudo-random bytes, the same everywhere: NaNs of many payloads, infinities, subnormals and negative zeros
// turn up among them. A bool is 0 or 1.
inline std::vector<std::byte> sample_bytes(DType dtype, size_t elements, uint64_t seed) {
  std::vector<std::byte> bytes(elements * size_of(dtype));
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint64_t random = mix64(seed * 1'000'003 + i);
    bytes[i] = static_cast<std::byte>(dtype == DType::kBool ? random & 1 : random & 0xFF);
  }
  return bytes;
}

inline SampleTensor sample_tensor(DType dtype, const SampleLayout& layout) {
  return {std::string(dtype_name(dtype)) + "." + layout.name,
          dtype,
          layout.shape,
          layout.strides,
          sample_bytes(dtype, layout.stored, static_cast<uint64_t>(dtype)),
          layout.offset};
}

inline std::vector<SampleTensor> sample_tensors() {
  std::vector<SampleTensor> samples;
  for (DType dtype : kAllDTypes)
    for (const SampleLayout& layout : sample_layouts()) samples.push_back(sample_tensor(dtype, layout));
  return samples;
}

// The logical elements, C order, packed.
inline std::vector<std::byte> logical_bytes(const TensorView& view) {
  const LogicalCopy copy(view);
  std::vector<std::byte> bytes(copy.elements() * copy.element_size());
  copy.copy(0, copy.elements(), bytes.data());
  return bytes;
}

}  // namespace ttap::test
