#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analyze/diff/tokens/token_rows.h"

namespace ttap {

// How a tensor holds the rows of its pass.
enum class RowForm : uint8_t {
  kRows,    // [rows, …], [1, rows, …] or [requests, length, …]
  kHeads,   // [requests, heads, length, …]
  kShared,  // [1, length, …]: the same for every request
  kLogits,  // only rows with logits: [these, …], or [requests, 1, …] where those are the last of each
};

// A row is `blocks` pieces of `block` elements, each `stride` elements after the one before.
struct RowLayout {
  RowForm form = RowForm::kRows;
  uint64_t blocks = 1;
  uint64_t block = 1;
  uint64_t stride = 0;
  uint32_t length = 0;  // PassRows::length
  uint32_t axes = 0;    // how many axes the rows have, from the front; of kHeads the first and the third

  uint64_t width() const { return blocks * block; }
  // The element at which a row of the pass begins. For kLogits `row` counts only those that have logits.
  uint64_t begin(uint32_t row) const;
};

// Every way in which a tensor of this shape could hold the rows, the likeliest first.
std::vector<RowLayout> row_layouts(const PassRows& pass, std::span<const int64_t> shape);

}  // namespace ttap
