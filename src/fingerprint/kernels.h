#pragma once

#include <cstddef>
#include <string_view>

#include "fingerprint/hash128.h"
#include "fingerprint/stats_part.h"
#include "ttap/fingerprint.h"

// The inner loops, one set per vector path. A block is at most kHashBlockBytes of a tensor, not aligned.
namespace ttap {

// The two sums of a block of whole stripes.
using HashKernel = HashPair (*)(const std::byte* data, size_t stripes);

// The same, and the block is copied to `to` (on a multiple of 64) on the way: what is stored is what was hashed, even
// while another thread writes to `data`. May go past the caches; then nobody else may read it before ChunkWorker
// fences.
using HashCopyKernel = HashPair (*)(const std::byte* data, size_t stripes, std::byte* to);

// The statistics of `count` values of a block. `near` is a number near the mean (that of the block before), or null
// at the start: a sum of squares is only as good as it is taken near the mean.
using StatsKernel = StatsPart (*)(const std::byte* data, size_t count, const double* near);

// Adds the values of `lines` whole lines (sketch_places.h), from the beginning of hash block number `block`, to the
// buckets. All of them are below kSketchLimit. Where there is one line, those from vector number `vectors` on are zero.
using SketchKernel = void (*)(const std::byte* data, size_t lines, size_t vectors, uint64_t block, double* buckets);

// A format of one byte may have no kernel: its bytes are counted instead (byte_histogram.h).
struct Kernels {
  std::string_view name;
  HashKernel hash;
  HashCopyKernel hash_and_copy;
  SketchKernel sketch_f16, sketch_bf16, sketch_f32, sketch_f64;
  StatsKernel f16, bf16, f32, f64;
  StatsKernel i16, i32, i64;
  StatsKernel u16, u32, u64;
  StatsKernel boolean = nullptr, i8 = nullptr, u8 = nullptr;
  StatsKernel e4m3fn = nullptr, e5m2 = nullptr, e4m3fnuz = nullptr;
  StatsKernel e2m1fn_x2 = nullptr;  // `count` is of bytes
  StatsKernel e5m2fnuz = nullptr, e8m0fnu = nullptr;
};

const Kernels& scalar_kernels();
// The best vector kernels this CPU runs that are not above `limit`; null when it has none.
const Kernels* vector_kernels(SimdPath limit);
// What `wanted` gives here.
const Kernels& kernels_for(SimdPath wanted);

// The kernel for the real values of a dtype; null when it is counted by bytes instead.
StatsKernel stats_kernel(const Kernels& kernels, DType dtype);
// Null for integers and formats of one byte, which have no sketch.
SketchKernel sketch_kernel(const Kernels& kernels, DType dtype);

}  // namespace ttap
