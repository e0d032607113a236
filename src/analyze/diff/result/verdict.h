#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/compare/measures.h"
#include "analyze/compare/tolerance.h"
#include "analyze/diff/result/match.h"
#include "ttap/diff.h"
#include "ttap/run.h"

namespace ttap {

// What a verdict rests on.
enum class Evidence : uint8_t { kNothing, kValues, kHash, kStatistics, kSketch };
std::string_view to_string(Evidence evidence);

// The entry of an axis that carries most of the error.
struct AxisWorst {
  uint32_t axis = 0;
  uint64_t first = 0;  // index, or the first of `width`
  uint64_t width = 1;
  double max_abs = 0;
  double share = 0;  // of the whole squared error
};

// A tensor of both sides, or of one.
struct TensorDiff {
  Match match = {};
  Verdict verdict = Verdict::kIdentical;
  Evidence evidence = Evidence::kNothing;
  bool like_rounding = false;  // inconclusive, and the statistics differ no more than by rounding
  bool stands_out = false;     // its error only grew more than in other calls of the kind
  // Within tolerance only beside what was summed to make it: how much of it may be rounding, as a share of its size.
  double rounding = 0;
  Cause cause = Cause::kNone;
  bool is_wrong = false;        // whatever the verdict: see find_wrong_gradients()
  uint32_t source = kNoTensor;  // kInherited: position, in the same list, of where the error came from
  // kInherited from what another rank gave to a collective: the pass, as the report counts them, that `source` is in.
  uint32_t source_pass = kNoTensor;
  std::string reason = {};                  // of the cause, or why it is inconclusive
  size_t cause_reason = 0;                  // where in it the reason of the cause begins
  std::unique_ptr<Measures> measures = {};  // without their axes; null when no bytes were compared
  std::unique_ptr<Judge> judge = {};        // null when none was needed
  std::vector<AxisWorst> axes = {};
  std::vector<int64_t> shape = {};  // in which it was compared, where A's value is made of what was recorded
  std::vector<uint32_t> ranks = {};  // of a tensor put together: whose part is out of tolerance
  std::string note = {};
  std::string tensor_name = {};  // of one that differs, or is on one side only: TensorNames::name_of()
  bool updates = false;          // it is what a call wrote to that tensor
};

// Why it is inconclusive, or which shapes it has, stays in front of the reason.
void set_cause(TensorDiff& tensor, Cause cause, const std::string& reason, uint32_t source = kNoTensor);

// Whether the two sides are known not to agree here. What only metadata was kept of tells nothing.
inline bool differs(const TensorDiff& tensor) {
  return tensor.verdict == Verdict::kDiverged || tensor.verdict == Verdict::kShapeMismatch ||
         (tensor.verdict == Verdict::kInconclusive && tensor.evidence != Evidence::kNothing);
}

// Whether its error as a whole is known: from the values, or estimated from their sketches.
inline bool is_measured(const TensorDiff& tensor) {
  return tensor.measures != nullptr && (tensor.evidence == Evidence::kValues || tensor.evidence == Evidence::kSketch);
}

// The error as a whole beside what it is an error of; NaN when it was not measured.
inline double relative_error(const TensorDiff& tensor) {
  if (tensor.measures == nullptr) return std::numeric_limits<double>::quiet_NaN();
  const bool scaled = tensor.judge != nullptr && tensor.judge->scale == tensor.judge->scale;
  return tensor.measures->rmse / (scaled ? tensor.judge->scale : tensor.measures->rms_a);
}

// The shape that the places of its values are in.
inline std::span<const int64_t> compared_shape(const TensorDiff& tensor, const TensorRecord& record) {
  return tensor.shape.empty() ? record.shape : std::span<const int64_t>(tensor.shape);
}

// Where each tensor record of one side (&Match::a, &Match::b) stands among the tensors; kNoTensor: it was not compared.
std::vector<uint32_t> positions_of(std::span<const TensorDiff> tensors, uint32_t Match::*side, size_t record_count);

}  // namespace ttap
