#pragma once

#include <cstdint>
#include <memory>
#include <string>
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

// One step from a tensor as it was recorded to what is compared.
struct ValueStep {
  enum class Kind : uint8_t {
    kTake,     // these entries of an axis, in this order; an axis below 0 counts from the end
    kPermute,  // axis i of the result is axis `numbers[i]`
    kReshape,  // read in the shape `numbers`
    kScale,    // times `factor`
  };
  Kind kind = Kind::kTake;
  int axis = 0;
  std::vector<int64_t> numbers = {};
  double factor = 1;
  bool operator==(const ValueStep&) const = default;
};

// How one side's value of a match is made of the tensors that the side recorded.
struct MadeValue {
  enum class Join : uint8_t { kNone, kConcat, kSum, kProduct };
  struct Part {
    uint32_t tensor = kNoTensor;
    std::vector<ValueStep> steps = {};
  };
  std::vector<Part> parts = {};  // the first is the tensor that the match names
  Join join = Join::kNone;       // kNone: there is only one
  int axis = 0;                  // kConcat
  std::string rule = {};         // which rule of a map says so; empty where none does

  // Whether one side rounds more often than the other, which has the result as it is.
  bool combines() const { return join == Join::kSum || join == Join::kProduct || scales(); }
  bool scales() const {
    return parts.size() == 1 && parts.front().steps.size() == 1 &&
           parts.front().steps.front().kind == ValueStep::Kind::kScale;
  }
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
  bool dropped = false;  // a rule of the map leaves it out
  // How A's value and B's are made; null: it is the tensor as it was recorded.
  std::shared_ptr<const MadeValue> made_a = {};
  std::shared_ptr<const MadeValue> made_b = {};
  uint32_t rule = 0;  // kMap, dropped: the line of the rule

  bool is_made() const { return made_a != nullptr || made_b != nullptr; }
  bool combines() const {
    return (made_a != nullptr && made_a->combines()) || (made_b != nullptr && made_b->combines());
  }
};

}  // namespace ttap
