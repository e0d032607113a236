#include "report/check/checked_tensor.h"

#include "report/run/describe.h"

namespace ttap {

CheckedTensor checked_tensor(const SelectedPass& selected, const Pass& pass, size_t index) {
  const TensorRecord tensor = pass.tensor(index);
  CheckedTensor result;
  result.rank = selected.rank->number;
  result.pid = selected.rank->pid;
  result.pass = pass.info().number;
  result.index = index;
  result.key = to_string(tensor.key());
  result.dtype = tensor.true_dtype.value_or(tensor.dtype);
  result.shape.assign(tensor.shape.begin(), tensor.shape.end());
  return result;
}

CheckedTensor checked_tensor(const SelectedPass& selected, const Pass& pass, const Nonfinite& found) {
  CheckedTensor result = checked_tensor(selected, pass, found.tensor);
  result.counts = found;
  return result;
}

std::string counts_text(const Nonfinite& counts) {
  return nonfinite_text({.nan = counts.nan, .pos_inf = counts.pos_inf, .neg_inf = counts.neg_inf});
}

void write_checked(JsonWriter& json, const CheckedTensor& tensor) {
  json.member("rank", tensor.rank).member("pid", tensor.pid).member("pass", tensor.pass).member("index", tensor.index);
  json.member("key", tensor.key).member("dtype", dtype_name(tensor.dtype));
  json.member("shape", std::span<const int64_t>(tensor.shape));
}

void write_counts(JsonWriter& json, const Nonfinite& counts) {
  json.member("count", counts.values).member("nan", counts.nan);
  json.member("pos_inf", counts.pos_inf).member("neg_inf", counts.neg_inf);
}

}  // namespace ttap
