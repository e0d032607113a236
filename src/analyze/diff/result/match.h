#pragma once

#include <cstdint>
#include <memory>
#include <vector>

// Which tensor of one side is which of the other.
namespace ttap {

enum class MatchedBy : uint8_t {
  kKey,
  kMap,
  kDeclared,  // a recording says so of its modules: fused projections, results that are combined
  kStructure,
  kValues,  // values of modules that are the same, or the same but for rounding, and like no other
  kOp,      // values of the same op, whatever its call number
  kBits,    // values of ops that have the same bits, whatever made them
  kPlace,   // values of different ops: what one side has where the other has this
  kNothing,
};

inline constexpr uint32_t kNoTensor = 0xFFFFFFFF;

// A value that one side has as it is, and the other as two that are to be combined, or but for a factor.
struct CombinedValue {
  bool of_a = false;           // which side has two, or lacks the factor
  uint32_t other = kNoTensor;  // the second of them; the first is the one that is matched
  bool is_product = false;     // else their sum
  double factor = 1;           // where there is no second
};

// A tensor of A and its counterpart of B; one of them may be kNoTensor.
struct Match {
  uint32_t a = kNoTensor;
  uint32_t b = kNoTensor;
  MatchedBy by = MatchedBy::kNothing;
  float confidence = 1;  // below 1 for kStructure only
  // Of an op that only one side has, and that does not matter: a copy or view, or bits that the other side has
  // elsewhere.
  bool trivial = false;
  // A part of a quantized tensor, which is compared as a whole; it has no partner.
  bool part = false;
  // Where one tensor is a part of the other, as that of a query is of a fused projection: which columns (of the last
  // axis) of the wider one they are, in the order of the narrower one. Null: they are compared as they are.
  std::shared_ptr<const std::vector<uint32_t>> columns = {};
  bool of_rows = false;  // not columns, but rows: of the first axis, as in the weight of a fused projection
  std::shared_ptr<const CombinedValue> combined = {};
  bool transposed = false;  // B's rows are A's columns, as the weights of a Conv1D are to those of a Linear
};

}  // namespace ttap
