#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "analyze/compare/ulp.h"
#include "ttap/compare.h"
#include "ttap/fingerprint.h"

// The inner loops of a comparison, one set per vector path. All give the same counts, maxima and ULPs; a sum may differ
// in its last bits.
namespace ttap {

inline constexpr size_t kPieceValues = 1024;
// Behind a piece lie zeros up to a multiple of this, and behind what it is added to there is room for as much.
inline constexpr size_t kPiecePadding = 16;

// Neighbouring pairs, widened. `distance` is |b − a| where the doubles do not tell it (64-bit integers), else null.
struct PairPiece {
  const double* a = nullptr;
  const double* b = nullptr;
  const double* distance = nullptr;
  size_t count = 0;
  // The values as they are written, where PairRules::words says how to read them.
  const std::byte* words_a = nullptr;
  const std::byte* words_b = nullptr;
};

// A float of `bytes` bytes, sign and magnitude, whose bits are its number in the format: the same on both sides, so
// that steps can be counted without rounding. `nonfinite` is the smallest magnitude that is NaN or infinite, and it as
// well as the value stand in the upper bits of 32. No bytes: read it from the doubles.
struct WordFormat {
  int bytes = 0;
  uint32_t nonfinite = 0;
};
WordFormat word_format(DType a, DType b);

// The distances that are told apart, for a percentile: from `low` to `high`, 2^shift to a bin. `low` is at least 1:
// what is equal lies below every window.
struct UlpWindow {
  uint64_t low = 1;
  uint64_t high = 1;
  int shift = 0;

  size_t bins() const { return static_cast<size_t>((high - low) >> shift) + 1; }
};

struct UlpCounts {
  uint64_t below = 0;
  std::vector<uint64_t> bins = {};
  std::vector<uint64_t> kept = {};  // those of a coarse window one by one, less `low`, as long as they are few
  bool all_kept = true;
  uint64_t zeros = 0;  // counted as distance 0 though they are no finite pairs
};

inline constexpr size_t kMostKeptUlps = size_t{1} << 21;

struct PairRules {
  Tolerance tolerance = {};
  bool ulp = false;
  UlpScale scale = {};
  UlpWindow window = {};
  WordFormat words = {};
};

// Sums, maxima and counts over finite pairs, but for the counts that say otherwise.
struct PairSums {
  uint64_t nonfinite = 0;  // pairs that are not both finite
  uint64_t unequal = 0;    // of any pairs
  uint64_t outside = 0;    // of any pairs
  uint64_t nan_mismatches = 0;
  uint64_t inf_mismatches = 0;
  double abs = 0;
  double sq = 0;
  double aa = 0;
  double bb = 0;
  double ab = 0;
  double max_abs = 0;
  double max_rel = 0;
  bool nonzero_a = false;  // whether there is a max_rel
  uint64_t max_ulp = 0;
};

// Where the error of each pair of a piece is added to; null where that is not wanted.
struct PositionErrors {
  double* sq = nullptr;
  double* max_abs = nullptr;
  uint64_t* outside = nullptr;
  uint64_t* nonfinite = nullptr;
};

struct PairKernels {
  std::string_view name;
  // `max_rel` is the largest so far: what stays below it need not be divided.
  PairSums (*compare)(const PairPiece& piece, const PairRules& rules, double max_rel, const PositionErrors& positions,
                      UlpCounts& ulps);
  // The ULP distances alone.
  void (*count_ulps)(const PairPiece& piece, const PairRules& rules, UlpCounts& ulps);
  void (*widen_f32)(const std::byte* from, size_t count, double* to);
  void (*widen_f16)(const std::byte* from, size_t count, double* to);
  void (*widen_bf16)(const std::byte* from, size_t count, double* to);
  // |b − a| of 64-bit integers, exact until made a double.
  void (*distance_i64)(const std::byte* a, const std::byte* b, size_t count, double* to);
  void (*distance_u64)(const std::byte* a, const std::byte* b, size_t count, double* to);
};

const PairKernels& plain_pair_kernels();
// The best vector kernels this CPU runs that are not above `limit`; null when it has none.
const PairKernels* vector_pair_kernels(SimdPath limit);
// What `wanted` gives here.
const PairKernels& pair_kernels(SimdPath wanted = SimdPath::kBest);

}  // namespace ttap
