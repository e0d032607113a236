#include "analyze/mismatch/logits.h"

#include <algorithm>
#include <cmath>

#include "analyze/values/real_values.h"
#include "core/element.h"

namespace ttap {

double log_sum_exp(const std::vector<double>& values) {
  const double largest = *std::ranges::max_element(values);
  if (!std::isfinite(largest)) return largest;
  double sum = 0;
  for (const double value : values) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

RunLogits::RunLogits(const TokenPasses& passes, const std::string& key, int64_t least_width)
    : passes_(&passes), found_(passes.sides.size()) {
  for (size_t pass = 0; pass < passes.sides.size(); ++pass) {
    const Side& side = *passes.sides[pass];
    for (uint32_t i = 0; i < side.tensor_count(); ++i) {
      const TensorRecord record = side.tensor(i);
      const bool fits = key.empty() ? record.role == "out" : to_string(record.key()) == key;
      if (!fits || !record.has_bytes || !is_real(record.dtype)) continue;
      for (const RowLayout& layout : row_layouts(passes.rows[pass], record.shape)) {
        if ((layout.form != RowForm::kRows && layout.form != RowForm::kLogits) ||
            layout.width() < static_cast<uint64_t>(least_width))
          continue;
        found_[pass] = {i, layout};
        break;
      }
    }
    if (found_[pass] && key_.empty()) {
      const TensorRecord record = side.tensor(found_[pass]->tensor);
      key_ = to_string(record.key());
      dtype_ = dtype_of(record);
    }
  }
}

std::optional<uint32_t> RunLogits::row_in_tensor(const TokenPlace& place) const {
  if (!found_[place.pass]) return std::nullopt;
  if (found_[place.pass]->layout.form == RowForm::kRows) return place.row;
  const std::vector<uint32_t>& rows = passes_->rows[place.pass].logits;
  const auto at = std::ranges::find(rows, place.row);
  if (at == rows.end()) return std::nullopt;
  return static_cast<uint32_t>(at - rows.begin());
}

Result<RunLogits::Tensor> RunLogits::read(uint32_t pass) const {
  TTAP_ASSIGN(SideBytes bytes, passes_->sides[pass]->read(found_[pass]->tensor));
  if (!is_contiguous(bytes.view)) return Error{ErrorCode::kUnsupported, "rows of logits with strides cannot be taken"};
  return Tensor{std::move(bytes), found_[pass]->layout.width()};
}

void RunLogits::take_row(const Tensor& tensor, const TokenPlace& place, std::vector<double>& row) const {
  const TensorView& view = tensor.bytes.view;
  const size_t size = size_of(view.dtype);
  const uint64_t begin = found_[place.pass]->layout.begin(*row_in_tensor(place));
  const auto* data = static_cast<const std::byte*>(view.data) + begin * size;
  row.resize(tensor.width);
  for (uint64_t i = 0; i < tensor.width; ++i) row[i] = value_of(view.dtype, data + i * size);
}

}  // namespace ttap
