#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "gpu.h"

// Tensors in many layouts, of which a kernel has to give what fingerprint() gives.
namespace ttap::test {

struct Layout {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  size_t offset = 0;  // in elements
  size_t stored = 0;  // elements
};

inline Layout c_order(size_t count) { return {"C order", {static_cast<int64_t>(count)}, {}, 0, count}; }

// About `count` elements in layouts that are not C order on a multiple of 16.
inline std::vector<Layout> layouts_of(size_t count) {
  const auto n = static_cast<int64_t>(count);
  const int64_t rows = std::max<int64_t>(1, static_cast<int64_t>(std::sqrt(double(n))));
  const int64_t columns = std::max<int64_t>(1, n / rows);
  std::vector<Layout> layouts = {
      {"transposed", {rows, columns}, {1, rows}, 0, static_cast<size_t>(rows * columns)},
      {"sliced", {rows, columns}, {columns + 3, 1}, 2, static_cast<size_t>(rows * (columns + 3) + 2)},
      {"every other", {n}, {2}, 1, 2 * count + 1},
      {"backwards", {n}, {-1}, count - 1, count},
      {"one element on", {n}, {1}, 1, count + 1},
      {"broadcast", {3, columns, 2}, {0, 1, 0}, 0, static_cast<size_t>(columns)},
  };
  const int64_t edge = std::max<int64_t>(1, static_cast<int64_t>(std::pow(double(n) / 24, 0.5)));
  const int64_t e = edge;
  layouts.push_back(
      {"five permuted", {e, 2, 4, e, 3}, {1, e * 3, e * 6, e * 24, e}, 0, static_cast<size_t>(24 * e * e)});
  const int64_t wide = std::max<int64_t>(16, columns / 16 * 16);
  layouts.push_back(
      {"rows of whole vectors", {rows, wide}, {wide + 16, 1}, 16, static_cast<size_t>(rows * (wide + 16) + 16)});
  return layouts;
}

inline void expect_agreement(Gpu& gpu, const Bytes& bytes, const Layout& layout, DType dtype, const std::string& what) {
  const size_t at = layout.offset * size_of(dtype);
  const std::byte* on_device = gpu.upload(bytes);
  const TensorView here{bytes.data() + at, dtype, layout.shape, layout.strides};
  const TensorView there{on_device + at, dtype, layout.shape, layout.strides};
  ASSERT_TRUE(validate(here).ok());
  const cuda::DeviceResult result = gpu.fingerprint(there);
  EXPECT_EQ(result.bytes, byte_count(here));
  EXPECT_TRUE(agrees(cuda::to_fingerprint(result), fingerprint(here, {.threads = 0})))
      << what << ", " << layout.name << ", " << dtype_name(dtype) << ", " << element_count(here) << " elements";
  gpu.free_all_but_scratch();
}

}  // namespace ttap::test
