#include "fingerprint/byte_sums.h"

#if defined(__x86_64__)

// g++ 12 warns of its own "undefined" vectors.
#ifndef __clang__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#ifndef __clang__
#pragma GCC diagnostic pop
#endif

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "fingerprint/hash128.h"

// A magnitude is an integer times 2^k. The exponents are cut into groups so narrow that within one of them the
// magnitude, less the group's own power of two, is an integer of seven bits: a byte table gives it, or zero where the
// value is of another group. Four bytes at a time are then multiplied by one, by the sign or by themselves and added in
// 32 bits, all exactly. Only the sums of the groups become doubles.
#define TTAP_BYTE_TABLES __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni,fma,popcnt")))

namespace ttap {
namespace {

constexpr size_t kVector = 64;

constexpr double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(1023 + exponent) << 52);
}

// _mm512_dpbusd_epi32, around which g++ 12 copies the sum twice.
TTAP_BYTE_TABLES inline void add_products(__m512i& sum, __m512i bytes, __m512i signed_bytes) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(bytes), "v"(signed_bytes));
}

// Adds the lanes, in pairs, times `unit`. A block has no more than 2^20 in a lane.
TTAP_BYTE_TABLES inline __m512d add_scaled(__m512d into, __m512i lanes, double unit) {
  const __m256i upper = _mm512_extracti64x4_epi64(lanes, 1);
  const __m256i pairs = _mm256_add_epi32(_mm512_castsi512_si256(lanes), upper);
  return _mm512_fmadd_pd(_mm512_cvtepi32_pd(pairs), _mm512_set1_pd(unit), into);
}

TTAP_BYTE_TABLES inline double total(__m512d v) {
  alignas(64) double lane[8];
  _mm512_store_pd(lane, v);
  return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

TTAP_BYTE_TABLES inline uint8_t least_byte(__m512i v) {
  alignas(64) __m128i quarter[4];
  _mm512_store_si512(quarter, v);
  const __m128i folded = _mm_min_epu8(_mm_min_epu8(quarter[0], quarter[1]), _mm_min_epu8(quarter[2], quarter[3]));
  const __m128i least = _mm_minpos_epu16(_mm_min_epu8(folded, _mm_srli_epi16(folded, 8)));
  return static_cast<uint8_t>(_mm_cvtsi128_si32(least));
}

// ---- e4m3, e5m2 ----

// What the extremes and counts follow from. It is done along with sums, which leave half of the vector units idle.
struct ByteScan {
  __m512i top, high, low, least;
  uint64_t zeros = 0;
  uint64_t subnormals = 0;

  TTAP_BYTE_TABLES explicit ByteScan(__m512i first)
      : top(first), high(first), low(first), least(_mm512_set1_epi8(-1)) {}
  template <int MANTISSA>
  TTAP_BYTE_TABLES void take(__m512i v) {
    const __m512i one = _mm512_set1_epi8(1);
    top = _mm512_max_epu8(top, v);
    high = _mm512_max_epi8(high, v);
    low = _mm512_min_epi8(low, v);
    const __m512i less_one = _mm512_sub_epi8(_mm512_and_si512(v, _mm512_set1_epi8(0x7F)), one);
    least = _mm512_min_epu8(least, less_one);
    const __mmask64 is_zero = _mm512_movepi8_mask(less_one);
    const __mmask64 is_subnormal = _mm512_cmplt_epu8_mask(less_one, _mm512_set1_epi8((1 << MANTISSA) - 1));
    zeros += static_cast<uint64_t>(__builtin_popcountll(is_zero));
    subnormals += static_cast<uint64_t>(__builtin_popcountll(is_subnormal));
  }
  TTAP_BYTE_TABLES void finish(ByteFloatSums& sums) const {
    const __m512i flip = _mm512_set1_epi8(-0x80);  // signed order as unsigned order
    sums.top = static_cast<uint8_t>(~least_byte(~top));
    sums.high = static_cast<uint8_t>(~least_byte(~(high ^ flip)) ^ 0x80);
    sums.low = static_cast<uint8_t>(least_byte(low ^ flip) ^ 0x80);
    sums.least = least_byte(least);
    sums.zeros = zeros;
    sums.subnormals = subnormals;
  }
};

// A table has 64 places, so a group is of the lower or of the upper half of the magnitudes. (A table of 128 takes three
// times as long.)
template <int MANTISSA>
struct Groups {
  static constexpr int kWidth = 7 - MANTISSA;                       // exponents in a group
  static constexpr int kUpperExponent = (64 >> MANTISSA) - 1;       // the first of the upper half
  static constexpr int kLower = (kUpperExponent - 1) / kWidth + 1;  // groups in the lower half
  static constexpr int kCount = kLower + kUpperExponent / kWidth + 1;

  static constexpr bool is_upper(int group) { return group >= kLower; }
  static constexpr int first_exponent(int group) {
    return is_upper(group) ? kUpperExponent + (group - kLower) * kWidth : group * kWidth;
  }

  struct alignas(64) Table {
    uint8_t value[64];
  };
  static constexpr std::array<Table, kCount> make() {
    std::array<Table, kCount> tables{};
    for (int group = 0; group < kCount; ++group) {
      for (int place = 0; place < 64; ++place) {
        const int code = is_upper(group) ? 64 + place : place;
        const int biased = code >> MANTISSA;
        const int fraction = code & ((1 << MANTISSA) - 1);
        const int mantissa = biased == 0 ? fraction : fraction | 1 << MANTISSA;
        const int shift = (biased == 0 ? 0 : biased - 1) - first_exponent(group);
        if (shift >= 0 && shift < kWidth)
          tables[static_cast<size_t>(group)].value[place] = static_cast<uint8_t>(mantissa << shift);
      }
    }
    return tables;
  }
  static constexpr std::array<Table, kCount> kTables = make();
};

// COUNT groups from FIRST on, as many as there are registers for; with the first of them go the extremes.
template <int MANTISSA, int FIRST, int COUNT>
TTAP_BYTE_TABLES inline void add_groups(const std::byte* data, size_t count, ByteFloatSums& sums) {
  using Format = Groups<MANTISSA>;
  static_assert(FIRST + COUNT <= Format::kCount);
  const __m512i one = _mm512_set1_epi8(1);
  const __m512i minus_one = _mm512_set1_epi8(-1);
  __m512i table[COUNT], sum[COUNT], squares[COUNT], l1[COUNT];
#pragma GCC unroll 4
  for (int g = 0; g < COUNT; ++g) {
    table[g] = _mm512_load_si512(Format::kTables[FIRST + g].value);
    sum[g] = squares[g] = l1[g] = _mm512_setzero_si512();
  }
  ByteScan scan(_mm512_loadu_si512(data));
  const std::byte* const end = data + count;
  do {
    const __m512i v = _mm512_loadu_si512(data);
    if constexpr (FIRST == 0) {
      // While this block is worked on, the next one is fetched.
      __builtin_prefetch(data + kHashBlockBytes);
      scan.take<MANTISSA>(v);
    }
    const __mmask64 upper = _mm512_test_epi8_mask(v, _mm512_set1_epi8(0x40));
    const __m512i sign = _mm512_mask_mov_epi8(one, _mm512_cmplt_epi8_mask(v, _mm512_setzero_si512()), minus_one);
#pragma GCC unroll 4
    for (int g = 0; g < COUNT; ++g) {
      // By the lower six bits.
      const __mmask64 half = Format::is_upper(FIRST + g) ? upper : ~upper;
      const __m512i value = _mm512_maskz_permutexvar_epi8(half, v, table[g]);
      add_products(sum[g], value, sign);
      add_products(squares[g], value, value);
      add_products(l1[g], value, one);
    }
    data += kVector;
  } while (data != end);
  if constexpr (FIRST == 0) scan.finish(sums);
  __m512d sums_of_groups[3] = {_mm512_setzero_pd(), _mm512_setzero_pd(), _mm512_setzero_pd()};
#pragma GCC unroll 4
  for (int g = 0; g < COUNT; ++g) {
    const double unit = power_of_two(Format::first_exponent(FIRST + g));
    sums_of_groups[0] = add_scaled(sums_of_groups[0], sum[g], unit);
    sums_of_groups[1] = add_scaled(sums_of_groups[1], squares[g], unit * unit);
    sums_of_groups[2] = add_scaled(sums_of_groups[2], l1[g], unit);
  }
  sums.sum += total(sums_of_groups[0]);
  sums.squares += total(sums_of_groups[1]);
  sums.l1 += total(sums_of_groups[2]);
}

// ---- e8m0 ----

// Powers of two, seven to a group, counted downwards from the largest of the block. What lies below the ninth group
// adds less than a rounding to the sum, and what lies below the fifth to the squares.
constexpr int kPowers = 7;
constexpr int kSumGroups = 9;
constexpr int kSquareGroups = 5;
constexpr int kNarrowGroups = 3;  // enough for most tensors

struct alignas(64) PowerTable {
  uint8_t value[kVector];
};
constexpr std::array<PowerTable, kSumGroups> make_power_tables() {
  std::array<PowerTable, kSumGroups> tables{};
  for (int below = 0; below < kPowers * kSumGroups; ++below)
    tables[static_cast<size_t>(below / kPowers)].value[below] =
        static_cast<uint8_t>(1 << (kPowers - 1 - below % kPowers));
  return tables;
}
constexpr std::array<PowerTable, kSumGroups> kPowerTables = make_power_tables();
constexpr uint8_t kNoPower = kPowers * kSumGroups;  // the last place of a table: zero in all
static_assert(kNoPower == kVector - 1);

constexpr uint8_t kNan = 0xFF;

// Calls take(vector) for all the data; its end is filled up with NaN.
template <bool FETCH_NEXT, class Take>
TTAP_BYTE_TABLES inline void for_each_vector(const std::byte* data, size_t count, Take& take) {
  size_t i = 0;
  for (; i + kVector <= count; i += kVector) {
    if constexpr (FETCH_NEXT) __builtin_prefetch(data + i + kHashBlockBytes);
    take(_mm512_loadu_si512(data + i));
  }
  if (i == count) return;
  const __mmask64 there = (uint64_t{1} << (count - i)) - 1;
  take(_mm512_mask_loadu_epi8(_mm512_set1_epi8(static_cast<char>(kNan)), there, data + i));
}

struct PowerRange {
  size_t finite = 0;
  __m512i min, max;

  TTAP_BYTE_TABLES PowerRange() : min(_mm512_set1_epi8(static_cast<char>(kNan))), max(_mm512_setzero_si512()) {}
  TTAP_BYTE_TABLES void operator()(__m512i v) {
    const __mmask64 is_finite = _mm512_cmpneq_epu8_mask(v, _mm512_set1_epi8(static_cast<char>(kNan)));
    finite += static_cast<size_t>(__builtin_popcountll(is_finite));
    min = _mm512_min_epu8(min, v);
    max = _mm512_mask_max_epu8(max, is_finite, max, v);
  }
};

template <int FIRST, int COUNT, bool SQUARES>
struct PowerSums {
  __m512i most, table[COUNT], sum[COUNT], squares[COUNT];

  TTAP_BYTE_TABLES explicit PowerSums(uint8_t max) : most(_mm512_set1_epi8(static_cast<char>(max))) {
#pragma GCC unroll 5
    for (int g = 0; g < COUNT; ++g) {
      table[g] = _mm512_load_si512(kPowerTables[FIRST + g].value);
      sum[g] = squares[g] = _mm512_setzero_si512();
    }
  }
  TTAP_BYTE_TABLES void operator()(__m512i v) {
    const __m512i none = _mm512_set1_epi8(static_cast<char>(kNoPower));
    const __mmask64 is_finite = _mm512_cmpneq_epu8_mask(v, _mm512_set1_epi8(static_cast<char>(kNan)));
    const __m512i below = _mm512_mask_min_epu8(none, is_finite, _mm512_sub_epi8(most, v), none);
#pragma GCC unroll 5
    for (int g = 0; g < COUNT; ++g) {
      const __m512i value = _mm512_permutexvar_epi8(below, table[g]);
      add_products(sum[g], value, _mm512_set1_epi8(1));
      if constexpr (SQUARES) add_products(squares[g], value, value);
    }
  }
};

// A number in two doubles.
struct TwoDoubles {
  double value = 0;
  double rest = 0;

  void add(double more) {
    const double sum = value + more;
    const double more_of_sum = sum - value;
    rest += (value - (sum - more_of_sum)) + (more - more_of_sum);
    value = sum;
  }
};

struct PowerTotals {
  TwoDoubles sum, squares;
};

template <int FIRST, int COUNT, bool SQUARES>
TTAP_BYTE_TABLES inline void add_powers(const std::byte* data, size_t count, uint8_t max, PowerTotals& totals) {
  PowerSums<FIRST, COUNT, SQUARES> sums(max);
  for_each_vector<false>(data, count, sums);
  // Up to five groups of sums, and three of squares, are exact in one double.
  __m512d sum = _mm512_setzero_pd();
  __m512d squares[2] = {_mm512_setzero_pd(), _mm512_setzero_pd()};
#pragma GCC unroll 5
  for (int g = 0; g < COUNT; ++g) {
    const double unit = power_of_two(-kPowers * (FIRST + g));
    sum = add_scaled(sum, sums.sum[g], unit);
    if constexpr (SQUARES) squares[g / 3] = add_scaled(squares[g / 3], sums.squares[g], unit * unit);
  }
  totals.sum.add(total(sum));
  if constexpr (SQUARES) totals.squares.add(total(squares[0]));
  if constexpr (SQUARES && COUNT > 3) totals.squares.add(total(squares[1]));
}

}  // namespace

TTAP_BYTE_TABLES ByteFloatSums sums_of_e4m3(const std::byte* data, size_t count) {
  ByteFloatSums sums;
  add_groups<3, 0, 4>(data, count, sums);
  return sums;
}

TTAP_BYTE_TABLES ByteFloatSums sums_of_e5m2(const std::byte* data, size_t count) {
  // The seventh group is of infinity and NaN.
  ByteFloatSums sums;
  add_groups<2, 0, 3>(data, count, sums);
  add_groups<2, 3, 3>(data, count, sums);
  return sums;
}

TTAP_BYTE_TABLES ByteFloatSums sums_of_e5m2fnuz(const std::byte* data, size_t count) {
  ByteFloatSums sums;
  add_groups<2, 0, 3>(data, count, sums);
  add_groups<2, 3, 4>(data, count, sums);
  return sums;
}

TTAP_BYTE_TABLES StatsPart stats_of_e8m0(const std::byte* data, size_t count) {
  PowerRange range;
  for_each_vector<true>(data, count, range);
  StatsPart part;
  part.nan = count - range.finite;
  part.finite = range.finite;
  if (part.finite == 0) return part;
  const uint8_t min = least_byte(range.min);
  const uint8_t max = static_cast<uint8_t>(~least_byte(~range.max));
  part.min = part.min_abs_nonzero = power_of_two(min - 127);
  part.max = power_of_two(max - 127);

  PowerTotals totals;
  if (max - min < kNarrowGroups * kPowers) {
    add_powers<0, kNarrowGroups, true>(data, count, max, totals);
  } else {
    add_powers<0, kSquareGroups, true>(data, count, max, totals);
    if (max - min >= kSquareGroups * kPowers)
      add_powers<kSquareGroups, kSumGroups - kSquareGroups, false>(data, count, max, totals);
  }
  const auto& [sum, squares] = totals;
  const auto n = static_cast<double>(part.finite);
  const double unit = power_of_two(max - 127 - (kPowers - 1));  // the lowest power in the first group
  const double mean = sum.value / n;
  set_mean(part, mean * unit, (__builtin_fma(-mean, n, sum.value) + sum.rest) / n * unit);
  // n · Σx² − (Σx)² is small against both when few values lie below many equal ones.
  const double a = n * squares.value;
  const double b = sum.value * sum.value;
  const double a_rest = __builtin_fma(n, squares.value, -a) + n * squares.rest;
  const double b_rest = __builtin_fma(sum.value, sum.value, -b) + 2 * sum.value * sum.rest;
  part.m2 = std::fmax(((a - b) + (a_rest - b_rest)) / n, 0.0) * unit * unit;
  part.l1 = sum.value * unit;
  return part;
}

}  // namespace ttap

#endif
