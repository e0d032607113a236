#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace ttap {

// What one op of a sequence is, for finding it in another. Equal numbers mean equal things; 0 is like nothing.
struct OpSymbol {
  uint64_t name = 0;      // the operator
  uint64_t overload = 0;  // the operator with its overload
  uint64_t shape = 0;
  uint64_t dtype = 0;
  uint64_t bits = 0;  // of what it made
  uint64_t fed = 0;   // the first of its arguments that has a counterpart
};

// Positions of ops that belong together, ascending on both sides.
using OpPairs = std::vector<std::pair<uint32_t, uint32_t>>;

// The longest common subsequence of two sequences of ops, and between its members the best that is left: same operator
// and shape before same operator, and among those the same bits, arguments, overload and dtype. Exact where a gap has
// up to some million cells, or where the sequences differ in up to 2,048 places; beyond that it is the best within a
// window that moves along, so time and memory stay linear.
OpPairs align_sequences(std::span<const OpSymbol> a, std::span<const OpSymbol> b);

}  // namespace ttap
