#pragma once

#include "cuda/kernels/device_job.h"
#include "cuda/kernels/lanes/lane_hash.h"

// Where a lane's vectors come from: the tensor's bytes as they would lie in C order. `at` is a multiple of 16.
namespace ttap::cuda {

// C order, on a multiple of 16.
struct PackedSource {
  static constexpr bool kIsAligned = true;
  static constexpr uint32_t kRoundsAhead = 2;  // that are loaded before the first of them is needed
  const std::byte* data;

  __device__ Vector vector(uint64_t at) const {
    const uint4 loaded = __ldg(reinterpret_cast<const uint4*>(data + at));
    return {{loaded.x, loaded.y, loaded.z, loaded.w}};
  }

  // Some vectors, `step` bytes apart.
  template <uint32_t N>
  __device__ void load(uint64_t at, uint32_t step, Vector (&into)[N]) const {
#pragma unroll
    for (uint32_t i = 0; i < N; ++i) into[i] = vector(at + i * step);
  }

  // The first `valid` bytes (at most 16) of a vector, and zeros.
  __device__ Vector partial(uint64_t at, uint32_t valid) const {
    if (valid == kVectorBytes) return vector(at);
    Vector vector = {};
#pragma unroll
    for (uint32_t i = 0; i < kVectorBytes; ++i)
      if (i < valid) vector.word[i / 4] |= static_cast<uint32_t>(data[at + i]) << (8 * (i % 4));
    return vector;
  }
};

// A unit may reach past the live rows: the first `valid` bytes, and zeros.
__device__ inline void clear_past(Vector& vector, uint32_t valid) {
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t live = valid > 4 * i ? valid - 4 * i : 0;
    if (live < 4) vector.word[i] &= (1u << (8 * live)) - 1;
  }
}

// Vectors that lie together, with strides between them.
struct VectorSource {
  static constexpr bool kIsAligned = true;
  const std::byte* data;
  const VectorLayout& layout;

  __device__ Vector vector(uint64_t at) const {
    return PackedSource{data + layout.offset(static_cast<uint32_t>(at / kVectorBytes))}.vector(0);
  }
  __device__ Vector partial(uint64_t at, uint32_t valid) const {
    if (valid == 0) return {};
    Vector result = vector(at);
    clear_past(result, valid);
    return result;
  }
};

// The innermost dimension is walked from unit to unit; where another row of it begins is worked out, out of line:
// inlined at each of the units, that was nine tenths of the kernels.
struct StridedSource {
  static constexpr bool kIsAligned = false;
  static constexpr uint32_t kRoundsAhead = 1;  // gathering needs more registers, and more code
  const std::byte* data;
  const StridedLayout& layout;

  template <uint32_t N>
  __device__ void load(uint64_t at, uint32_t step, Vector (&into)[N]) const {
    const auto fill = [&](const auto& vector) {
#pragma unroll
      for (uint32_t i = 0; i < N; ++i) into[i] = vector(at + i * step);
    };
    switch (layout.unit) {
      case 1: return fill([&](uint64_t place) { return gather<uint8_t>(place, kVectorBytes); });
      case 2: return fill([&](uint64_t place) { return gather<uint16_t>(place, kVectorBytes); });
      case 4: return fill([&](uint64_t place) { return gather<uint32_t>(place, kVectorBytes); });
      case 8: return fill([&](uint64_t place) { return gather<uint64_t>(place, kVectorBytes); });
      default: fill([&](uint64_t place) { return whole(place); });
    }
  }

  __device__ Vector partial(uint64_t at, uint32_t valid) const {
    if (valid == 0) return {};
    Vector result = {};
    switch (layout.unit) {
      case 1: result = gather<uint8_t>(at, valid); break;
      case 2: result = gather<uint16_t>(at, valid); break;
      case 4: result = gather<uint32_t>(at, valid); break;
      case 8: result = gather<uint64_t>(at, valid); break;
      default: result = whole(at);
    }
    clear_past(result, valid);
    return result;
  }

 private:
  __device__ static void divide(uint64_t& index, uint64_t by, uint64_t& rest) {
    if ((index | by) >> 32 == 0) {
      const uint32_t quotient = static_cast<uint32_t>(index) / static_cast<uint32_t>(by);
      rest = static_cast<uint32_t>(index) - quotient * static_cast<uint32_t>(by);
      index = quotient;
    } else {
      const uint64_t quotient = index / by;
      rest = index - quotient * by;
      index = quotient;
    }
  }

  // Where row number `row` of the innermost dimension begins.
  __device__ const std::byte* row_start(uint64_t row) const {
    if (layout.dims < 2) return data;
    if (layout.dims == 2) return data + static_cast<int64_t>(row) * layout.strides[0];
    return row_start_of_many(data, layout, row);
  }
  static __device__ TTAP_APART const std::byte* row_start_of_many(const std::byte* start, const StridedLayout& layout,
                                                                  uint64_t row) {
#pragma unroll 1
    for (uint32_t i = layout.dims - 1; i-- > 1 && row != 0;) {
      uint64_t here;
      divide(row, layout.shape[i], here);
      start += static_cast<int64_t>(here) * layout.strides[i];
    }
    return start + static_cast<int64_t>(row) * layout.strides[0];  // of the outermost, every index is left over
  }

  __device__ Vector whole(uint64_t at) const {
    uint64_t row = at / kVectorBytes;
    uint64_t column;
    const uint32_t inner = layout.dims - 1;
    divide(row, layout.shape[inner], column);
    const std::byte* from = row_start(row) + static_cast<int64_t>(column) * layout.strides[inner];
    return PackedSource{from}.vector(0);
  }

  template <class Unit>
  __device__ Vector gather(uint64_t at, uint32_t valid) const {
    constexpr uint32_t kSize = sizeof(Unit);
    const uint32_t inner = layout.dims - 1;
    const uint64_t columns = layout.shape[inner];
    const int64_t stride = layout.strides[inner];
    uint64_t row = at / kSize;
    uint64_t column;
    divide(row, columns, column);
    const std::byte* from = row_start(row) + static_cast<int64_t>(column) * stride;
    Vector vector = {};
#pragma unroll
    for (uint32_t i = 0; i < kVectorBytes / kSize; ++i) {
      if (i * kSize >= valid) break;
      const Unit unit = __ldg(reinterpret_cast<const Unit*>(from));
      if constexpr (kSize == 8) {
        vector.word[2 * i] = static_cast<uint32_t>(unit);
        vector.word[2 * i + 1] = static_cast<uint32_t>(unit >> 32);
      } else {
        vector.word[i * kSize / 4] |= static_cast<uint32_t>(unit) << (8 * (i * kSize % 4));
      }
      from += stride;
      // Not past the end of the tensor: the row after the last is none.
      if (++column == columns && (i + 1) * kSize < valid) {
        column = 0;
        from = row_start(++row);
      }
    }
    return vector;
  }
};

}  // namespace ttap::cuda
