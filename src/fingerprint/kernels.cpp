#include "fingerprint/kernels.h"

#include "fingerprint/real_format.h"
#include "fingerprint/sketch.h"

namespace ttap {
namespace {

HashPair plain_hash(const std::byte* data, size_t stripes) {
  HashPair sums;
  for (uint32_t j = 0; j < stripes * (kHashStripeBytes / 8); ++j) {
    uint32_t word[2];
    std::memcpy(word, data + 8 * size_t{j}, sizeof word);
    sums.a += hash_word(word[0], word[1], kHashKeys.key, j);
    sums.b += hash_word(word[0], word[1], kHashKeys.key + kHashKeyShift, j);
  }
  return sums;
}

HashPair plain_hash_and_copy(const std::byte* data, size_t stripes, std::byte* to) {
  std::memcpy(to, data, stripes * kHashStripeBytes);
  return plain_hash(to, stripes);
}

template <class Format>
StatsPart plain(const std::byte* data, size_t count, const double* /*near*/) {
  return plain_stats<Format>(data, count);
}

template <class Format>
void plain_sketch(const std::byte* data, size_t lines, size_t /*vectors*/, uint64_t block, double* buckets) {
  add_to_sketch<Format>(data, lines * kSketchLineBytes / sizeof(typename Format::Bits), block, buckets);
}

}  // namespace

const Kernels& scalar_kernels() {
  static constexpr Kernels kernels = {
      "scalar",          plain_hash, plain_hash_and_copy, plain_sketch<F16>, plain_sketch<BF16>, plain_sketch<F32>,
      plain_sketch<F64>, plain<F16>, plain<BF16>,         plain<F32>,        plain<F64>,         plain<I16>,
      plain<I32>,        plain<I64>, plain<U16>,          plain<U32>,        plain<U64>};
  return kernels;
}

const Kernels& kernels_for(SimdPath wanted) {
  if (wanted == SimdPath::kScalar) return scalar_kernels();
  const Kernels* vector = vector_kernels(wanted);
  return vector != nullptr ? *vector : scalar_kernels();
}

StatsKernel stats_kernel(const Kernels& kernels, DType dtype) {
  switch (dtype) {
    case DType::kF16: return kernels.f16;
    case DType::kBF16: return kernels.bf16;
    case DType::kF32:
    case DType::kC64: return kernels.f32;
    case DType::kF64:
    case DType::kC128: return kernels.f64;
    case DType::kI16: return kernels.i16;
    case DType::kI32: return kernels.i32;
    case DType::kI64: return kernels.i64;
    case DType::kU16: return kernels.u16;
    case DType::kU32: return kernels.u32;
    case DType::kU64: return kernels.u64;
    case DType::kBool: return kernels.boolean;
    case DType::kI8: return kernels.i8;
    case DType::kU8: return kernels.u8;
    case DType::kF8E4M3FN: return kernels.e4m3fn;
    case DType::kF8E5M2: return kernels.e5m2;
    case DType::kF8E4M3FNUZ: return kernels.e4m3fnuz;
    case DType::kF4E2M1FNx2: return kernels.e2m1fn_x2;
    case DType::kF8E5M2FNUZ: return kernels.e5m2fnuz;
    case DType::kF8E8M0FNU: return kernels.e8m0fnu;
  }
  return nullptr;
}

SketchKernel sketch_kernel(const Kernels& kernels, DType dtype) {
  switch (dtype) {
    case DType::kF16: return kernels.sketch_f16;
    case DType::kBF16: return kernels.sketch_bf16;
    case DType::kF32:
    case DType::kC64: return kernels.sketch_f32;
    case DType::kF64:
    case DType::kC128: return kernels.sketch_f64;
    default: return nullptr;
  }
}

std::string_view simd_path_name(SimdPath wanted) { return kernels_for(wanted).name; }

}  // namespace ttap
