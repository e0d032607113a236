#pragma once

#include "analyze/diff/result/verdict.h"
#include "analyze/diff/sides/side.h"

namespace ttap {

// What a comparison of many pairs shares.
struct PairContext {
  const Side& a;
  const Side& b;
  const Tolerances& tolerances;
  // The tensor of another run of the reference that stands for tensor `a` of A; null when there is none.
  const Side* noise = nullptr;
  const std::vector<uint32_t>* noise_of = nullptr;  // per tensor of A; kNoTensor where the noise run lacks it
  const std::vector<DType>* precision_a = nullptr;  // precisions_of() each side
  const std::vector<DType>* precision_b = nullptr;
  bool addresses = true;  // integers that look like addresses of memory are taken for these

  // The coarsest dtype that either value of a pair passed through, which it is judged by.
  DType judged_by(const Match& match) const;
};

// The two views of a pair, ready to be compared element by element: B's read in A's shape where only dimensions of size
// one, or for a guessed match the shape, differ. `rank_b`: with that rank's copy of what B's ranks should hold alike.
struct PairViews {
  SideBytes a, b;
  std::string note = {};  // how B's shape was read
};
Result<PairViews> read_pair(const Side& a, const Side& b, const Match& match, const uint32_t* rank_b = nullptr);

// The root mean square of the finite values of a tensor whose statistics were recorded; NaN otherwise.
double rms_of(const TensorRecord& record);

// What a pair is granted because a side of it is quantized; nothing where none is, or both are in the same format.
std::optional<QuantTolerance> quant_tolerance_of(const TensorRecord& a, const TensorRecord& b, const Stats* stats_a,
                                                 const Stats* stats_b);

// Fills in everything of `tensor` but its cause. Reads bytes only when the hashes do not settle it.
void compare_pair(const PairContext& context, TensorDiff& tensor, unsigned threads);

}  // namespace ttap
