#include "analyze/diff/blame/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "analyze/diff/judge/compare_pair.h"
#include "analyze/ops/role_flow.h"
#include "core/element.h"

namespace ttap {
namespace {

constexpr size_t kMostRows = 256;  // that differ and are looked at one by one

// Two matrices of one shape, row by row.
struct RowPair {
  const TensorView& a;
  const TensorView& b;
  size_t rows = 0, width = 0;

  double at(const TensorView& view, size_t row, size_t column) const {
    return value_of(view.dtype,
                    static_cast<const std::byte*>(view.data) + (row * width + column) * size_of(view.dtype));
  }
  // Whether row `i` of B is row `j` of A times `factor`.
  bool is_row(size_t i, size_t j, double factor) const {
    for (size_t column = 0; column < width; ++column)
      if (at(b, i, column) != factor * at(a, j, column)) return false;
    return true;
  }
};

// What became of a row of B that differs; empty where nothing simple did.
std::string row_text(const RowPair& pair, size_t row, const std::vector<size_t>& differing) {
  if (pair.is_row(row, row, 0)) return fmt::format("row {} of B is zero", row);
  if (pair.is_row(row, row, -1)) return fmt::format("row {} is negated in B", row);
  for (const size_t other : differing) {
    if (other == row || !pair.is_row(row, other, 1)) continue;
    if (!pair.is_row(other, row, 1)) return fmt::format("row {} of B is A's row {}", row, other);
    return row < other ? fmt::format("rows {} and {} are swapped in B", row, other) : std::string();
  }
  return {};
}

std::string rows_text(const TensorView& a, const TensorView& b) {
  if (a.shape.size() < 2 || !std::ranges::equal(a.shape, b.shape) || !is_contiguous(a) || !is_contiguous(b)) return {};
  RowPair pair{a, b, static_cast<size_t>(a.shape[0])};
  pair.width = pair.rows == 0 ? 0 : element_count(a) / pair.rows;
  std::vector<size_t> differing;
  for (size_t row = 0; row < pair.rows && differing.size() <= kMostRows; ++row)
    if (!pair.is_row(row, row, 1)) differing.push_back(row);
  if (differing.empty() || differing.size() > kMostRows || differing.size() == pair.rows) return {};
  std::string text;
  size_t said = 0;
  for (const size_t row : differing) {
    const std::string of_row = row_text(pair, row, differing);
    if (of_row.empty() || ++said > 3) continue;
    text += (text.empty() ? "" : ", ") + of_row;
  }
  if (text.empty() || said > 3)
    text += fmt::format("{}{} of its {} rows differ", text.empty() ? "" : ", … ", differing.size(), pair.rows);
  return text;
}

}  // namespace

void explain_weights(const Side& a, const Side& b, std::span<TensorDiff> tensors) {
  for (TensorDiff& tensor : tensors) {
    if (!differs(tensor) || tensor.match.a == kNoTensor || tensor.match.b == kNoTensor ||
        !is_parameter(a.tensor(tensor.match.a).role) || tensor.evidence != Evidence::kValues)
      continue;
    const auto views = read_pair(a, b, tensor.match);
    if (!views.ok() || views->a.view.dtype == DType::kF4E2M1FNx2 || views->b.view.dtype == DType::kF4E2M1FNx2) continue;
    if (std::string text = rows_text(views->a.view, views->b.view); !text.empty()) tensor.reason = std::move(text);
  }
}

}  // namespace ttap
