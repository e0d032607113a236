#include "analyze/diff/result/verdict.h"

namespace ttap {

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kIdentical: return "identical";
    case Verdict::kWithin: return "within tolerance";
    case Verdict::kDiverged: return "diverged";
    case Verdict::kInconclusive: return "inconclusive";
    case Verdict::kMissing: return "missing";
    case Verdict::kExtra: return "extra";
    case Verdict::kShapeMismatch: return "shape mismatch";
    case Verdict::kFlipped: return "flipped";
  }
  return "";
}

std::string_view to_string(Cause cause) {
  switch (cause) {
    case Cause::kNone: return "";
    case Cause::kIntroduced: return "introduced";
    case Cause::kInherited: return "inherited";
    case Cause::kUnknown: return "unknown";
  }
  return "";
}

std::string_view to_string(Evidence evidence) {
  switch (evidence) {
    case Evidence::kNothing: return "";
    case Evidence::kValues: return "values";
    case Evidence::kHash: return "hash";
    case Evidence::kStatistics: return "statistics";
    case Evidence::kSketch: return "sketch";
  }
  return "";
}

void set_cause(TensorDiff& tensor, Cause cause, const std::string& reason, uint32_t source) {
  if (tensor.cause == Cause::kNone) tensor.cause_reason = tensor.reason.size();
  tensor.cause = cause;
  if (!tensor.reason.empty()) tensor.reason += "; ";
  tensor.reason += reason;
  tensor.source = source;
}

std::vector<uint32_t> positions_of(std::span<const TensorDiff> tensors, uint32_t Match::*side, size_t record_count) {
  std::vector<uint32_t> positions(record_count, kNoTensor);
  for (uint32_t i = 0; i < tensors.size(); ++i)
    if (const uint32_t record = tensors[i].match.*side; record != kNoTensor) positions[record] = i;
  // What is compared only as one with others stands where these do.
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    const Match& match = tensors[i].match;
    if (const MadeValue* made = side == &Match::a ? match.made_a.get() : match.made_b.get(); made != nullptr)
      for (const MadeValue::Part& part : made->parts)
        if (positions[part.tensor] == kNoTensor) positions[part.tensor] = i;
  }
  return positions;
}

}  // namespace ttap
