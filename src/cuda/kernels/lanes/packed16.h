#pragma once

#include <cstdint>

#include "core/element.h"
#include "ttap/api.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

// Two numbers of 16 bits in a word at once: one instruction each from sm_90 on, a few before that, plain code on the
// host (where only tests run it).
namespace ttap::cuda {

namespace detail {
template <class Pick>
TTAP_HD inline uint32_t by_halves(uint32_t a, uint32_t b, Pick pick) {
  const uint32_t low = pick(a & 0xFFFF, b & 0xFFFF);
  const uint32_t high = pick(a >> 16, b >> 16);
  return (high << 16) | (low & 0xFFFF);
}
}  // namespace detail

TTAP_HD inline uint32_t min_u16x2(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t result;
  asm("min.u16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
#elif defined(__CUDA_ARCH__)
  return __vminu2(a, b);
#else
  return detail::by_halves(a, b, [](uint32_t x, uint32_t y) { return x < y ? x : y; });
#endif
}

TTAP_HD inline uint32_t max_u16x2(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t result;
  asm("max.u16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
#elif defined(__CUDA_ARCH__)
  return __vmaxu2(a, b);
#else
  return detail::by_halves(a, b, [](uint32_t x, uint32_t y) { return x > y ? x : y; });
#endif
}

TTAP_HD inline uint32_t min_s16x2(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t result;
  asm("min.s16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
#else
  // The sign bit turned over, signed order is unsigned order.
  return min_u16x2(a ^ 0x80008000u, b ^ 0x80008000u) ^ 0x80008000u;
#endif
}

TTAP_HD inline uint32_t max_s16x2(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t result;
  asm("max.s16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
#else
  return max_u16x2(a ^ 0x80008000u, b ^ 0x80008000u) ^ 0x80008000u;
#endif
}

// min(a − 1, b), modulo 2^16: a zero becomes the largest number there is.
TTAP_HD inline uint32_t min_of_less_one_u16x2(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  return __viaddmin_u16x2(a, 0xFFFFFFFFu, b);
#elif defined(__CUDA_ARCH__)
  return __vminu2(__vsub2(a, 0x00010001u), b);
#else
  return detail::by_halves(a, b, [](uint32_t x, uint32_t y) {
    const uint32_t less_one = (x - 1) & 0xFFFF;
    return less_one < y ? less_one : y;
  });
#endif
}

// ---- floats: a NaN wins against every number ----

namespace detail {
// Ascends with the value; −0 is just below 0.
TTAP_HD inline uint32_t order16(uint32_t bits) { return (bits & 0x8000) ? 0xFFFF - bits : bits + 0x8000; }

template <bool MAX>
TTAP_HD inline uint32_t extreme16(uint32_t a, uint32_t b, uint32_t infinite) {
  if ((a & 0x7FFF) > infinite) return a;
  if ((b & 0x7FFF) > infinite) return b;
  return (order16(a) < order16(b)) == MAX ? b : a;
}
}  // namespace detail

#if defined(__CUDA_ARCH__)
template <class Two>
__device__ inline Two as_pair(uint32_t bits) {
  Two pair;
  memcpy(&pair, &bits, sizeof pair);
  return pair;
}
template <class Two>
__device__ inline uint32_t as_bits(Two pair) {
  uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}
#endif

TTAP_HD inline uint32_t min_f16x2(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__)
  return as_bits(__hmin2_nan(as_pair<__half2>(a), as_pair<__half2>(b)));
#else
  return detail::by_halves(a, b, [](uint32_t x, uint32_t y) { return detail::extreme16<false>(x, y, 0x7C00); });
#endif
}
TTAP_HD inline uint32_t max_f16x2(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__)
  return as_bits(__hmax2_nan(as_pair<__half2>(a), as_pair<__half2>(b)));
#else
  return detail::by_halves(a, b, [](uint32_t x, uint32_t y) { return detail::extreme16<true>(x, y, 0x7C00); });
#endif
}
TTAP_HD inline uint32_t min_bf16x2(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__)
  return as_bits(__hmin2_nan(as_pair<__nv_bfloat162>(a), as_pair<__nv_bfloat162>(b)));
#else
  return detail::by_halves(a, b, [](uint32_t x, uint32_t y) { return detail::extreme16<false>(x, y, 0x7F80); });
#endif
}
TTAP_HD inline uint32_t max_bf16x2(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__)
  return as_bits(__hmax2_nan(as_pair<__nv_bfloat162>(a), as_pair<__nv_bfloat162>(b)));
#else
  return detail::by_halves(a, b, [](uint32_t x, uint32_t y) { return detail::extreme16<true>(x, y, 0x7F80); });
#endif
}

// The smaller magnitudes, NaN aside; the sign bits of the result mean nothing.
TTAP_HD inline uint32_t min_magnitude_f16x2(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t result;
  asm("min.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
#else
  return min_u16x2(a & 0x7FFF7FFFu, b & 0x7FFF7FFFu);
#endif
}
TTAP_HD inline uint32_t min_magnitude_bf16x2(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t result;
  asm("min.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
#else
  return min_u16x2(a & 0x7FFF7FFFu, b & 0x7FFF7FFFu);
#endif
}

// All bits of a half set where it is zero of either sign, else none.
TTAP_HD inline uint32_t is_zero_f16x2(uint32_t word) {
#if defined(__CUDA_ARCH__)
  return __heq2_mask(as_pair<__half2>(word), as_pair<__half2>(0));
#else
  return detail::by_halves(word & 0x7FFF7FFFu, 0, [](uint32_t x, uint32_t y) { return x == y ? 0xFFFFu : 0; });
#endif
}
TTAP_HD inline uint32_t is_zero_bf16x2(uint32_t word) {
#if defined(__CUDA_ARCH__)
  return __heq2_mask(as_pair<__nv_bfloat162>(word), as_pair<__nv_bfloat162>(0));
#else
  return detail::by_halves(word & 0x7FFF7FFFu, 0, [](uint32_t x, uint32_t y) { return x == y ? 0xFFFFu : 0; });
#endif
}

// ---- one of the two, wider ----

TTAP_HD inline float f32_of_low_f16(uint32_t word) {
#if defined(__CUDA_ARCH__)
  float value;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.f32.f16 %0, low;\n}" : "=f"(value) : "r"(word));
  return value;
#else
  return f32_of_f16(static_cast<uint16_t>(word));
#endif
}

TTAP_HD inline double f64_of_low_f16(uint32_t word) {
#if defined(__CUDA_ARCH__)
  double value;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.f64.f16 %0, low;\n}" : "=d"(value) : "r"(word));
  return value;
#else
  return f32_of_f16(static_cast<uint16_t>(word));
#endif
}
TTAP_HD inline double f64_of_high_f16(uint32_t word) {
#if defined(__CUDA_ARCH__)
  double value;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.f64.f16 %0, high;\n}" : "=d"(value) : "r"(word));
  return value;
#else
  return f32_of_f16(static_cast<uint16_t>(word >> 16));
#endif
}
TTAP_HD inline double f64_of_low_bf16(uint32_t word) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  double value;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.f64.bf16 %0, low;\n}" : "=d"(value) : "r"(word));
  return value;
#else
  return ttap::detail::float_of_bits(word << 16);
#endif
}
TTAP_HD inline double f64_of_high_bf16(uint32_t word) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  double value;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.f64.bf16 %0, high;\n}" : "=d"(value) : "r"(word));
  return value;
#else
  return ttap::detail::float_of_bits(word & 0xFFFF0000u);
#endif
}

}  // namespace ttap::cuda
