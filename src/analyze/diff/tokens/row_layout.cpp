#include "analyze/diff/tokens/row_layout.h"

#include <algorithm>

namespace ttap {
namespace {

uint64_t product(std::span<const int64_t> sizes) {
  uint64_t product = 1;
  for (const int64_t size : sizes) product *= static_cast<uint64_t>(size);
  return product;
}

// Whether the one row of each request that `[requests, 1, …]` holds is the last of its grid.
bool are_last_of_grid(const PassRows& pass) {
  if (pass.logits.size() != pass.requests.size()) return false;
  for (size_t request = 0; request < pass.logits.size(); ++request)
    if (pass.logits[request] != (request + 1) * pass.length - 1) return false;
  return true;
}

}  // namespace

uint64_t RowLayout::begin(uint32_t row) const {
  if (form == RowForm::kHeads) return uint64_t{row / length} * blocks * stride + uint64_t{row % length} * block;
  return (form == RowForm::kShared ? row % length : row) * block;
}

std::vector<RowLayout> row_layouts(const PassRows& pass, std::span<const int64_t> shape) {
  std::vector<RowLayout> found;
  if (shape.empty()) return found;
  const auto is = [&](size_t axis, uint64_t size) {
    return axis < shape.size() && static_cast<uint64_t>(shape[axis]) == size;
  };
  const auto add = [&](RowForm form, size_t axes) {
    found.push_back({.form = form,
                     .block = product(shape.subspan(axes)),
                     .length = pass.length,
                     .axes = static_cast<uint32_t>(axes)});
  };
  const uint64_t rows = pass.rows.size(), live = pass.live_rows(), requests = pass.requests.size();
  const bool is_grid = pass.length > 0;
  if (is_grid && is(0, requests) && is(1, pass.length)) {
    add(RowForm::kRows, 2);
  } else if (is(0, rows) || (!is_grid && is(0, live))) {
    add(RowForm::kRows, 1);
  } else if (is(0, 1) && (is(1, rows) || (!is_grid && is(1, live)))) {
    add(RowForm::kRows, 2);
  }
  if (is_grid && shape.size() == 4 && is(0, requests) && is(2, pass.length)) {
    const auto heads = static_cast<uint64_t>(shape[1]), size = static_cast<uint64_t>(shape[3]);
    found.push_back(
        {.form = RowForm::kHeads, .blocks = heads, .block = size, .stride = pass.length * size, .length = pass.length});
  }
  if (is_grid && requests > 1 && is(0, 1) && is(1, pass.length)) add(RowForm::kShared, 2);
  if (is_grid ? is(0, requests) && is(1, 1) && are_last_of_grid(pass) : is(0, pass.logits.size()))
    add(RowForm::kLogits, is_grid ? 2 : 1);
  return found;
}

}  // namespace ttap
