#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "analyze/diff/match/pairing.h"
#include "analyze/diff/sides/side.h"

// Quantized tensors in an alignment: what their parts are compared with.
namespace ttap {

// The parts of the quantized tensors of a side. The second group of a tensor that is stored both ways is a part of it,
// too, and has parts of its own.
class QuantParts {
 public:
  explicit QuantParts(const Side& side);

  bool none() const { return is_part_.empty(); }
  bool is_part(size_t tensor) const { return !none() && is_part_[tensor]; }
  // By step; null for a tensor that has none.
  const std::unordered_map<std::string, size_t>* of(size_t tensor) const;

 private:
  std::vector<bool> is_part_;  // empty when there is no quantized tensor
  std::unordered_map<size_t, std::unordered_map<std::string, size_t>> parts_;
};

// Keeps parts from being matched: their tensor speaks for them. One whose key is no part in the other side, as in a
// file that has the bytes without their description, is left to be matched by it.
void close_parts(const Side& a, const QuantParts& parts_a, const Side& b, const QuantParts& parts_b, Pairing& pairing);

// When all else is matched: of two quantized tensors that belong together the second groups do, and the parts do where
// the tensors have no values to compare.
void match_parts(const Side& a, const QuantParts& parts_a, const Side& b, const QuantParts& parts_b, Pairing& pairing);

}  // namespace ttap
