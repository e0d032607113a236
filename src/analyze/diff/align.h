#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyze/diff/rule_file.h"
#include "analyze/diff/side.h"
#include "core/pattern.h"
#include "ttap/result.h"

// Which tensor of one side is which of the other.
namespace ttap {

// A mapping file: a YAML map, or a list of maps, of regex → replacement. Each rule is tried in its order on the whole
// text of a key of B, every match replaced; what comes out is looked for among A's keys. Not for several threads.
class NameMap {
 public:
  static Result<NameMap> read(const std::string& path);
  static Result<NameMap> parse(std::string_view yaml, const std::string& path);
  std::string apply(std::string_view key) const;
  std::vector<std::string> unused() const;  // rules that changed nothing so far

 private:
  struct Rule {
    Pattern pattern;
    std::string replacement;
    mutable bool used = false;
  };
  Status add(std::vector<RuleLine> lines, const std::string& path);
  std::vector<Rule> rules_;
};

enum class MatchedBy : uint8_t {
  kKey,
  kMap,
  kStructure,
  kOp,     // values of the same op, whatever its call number
  kBits,   // values of ops that have the same bits, whatever made them
  kPlace,  // values of different ops: what one side has where the other has this
  kNothing,
};

inline constexpr uint32_t kNoTensor = 0xFFFFFFFF;

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
};

struct AlignOptions {
  const NameMap* map = nullptr;
  bool structure = true;            // guess at what keys and map leave over
  const Pattern* filter = nullptr;  // keys (of A, or of B where A has none) to look at
};

// The tensors of ops as match_ops() says, where both sides have ops (`aten::relu`); all others
// by key first, then by the map, then by structure: leftovers of the same role and number of elements, by the order
// they have between matched tensors, shape, kind, parent and what their names say. What it would be less sure of than
// kLeastConfidence (pairing.h) stays unmatched. A tensor whose key the other side has is never matched otherwise.
// Parts of quantized tensors are matched as match_parts() (quant_parts.h) says, and mostly with nothing.
// Every wanted tensor of both sides once: A's in execution order, with what only B has after the match (or unmatched
// tensor) of A that it follows in B.
std::vector<Match> align(const Side& a, const Side& b, const AlignOptions& options = {});

}  // namespace ttap
