#include "report/tensor/record_json.h"

#include "core/json.h"

namespace ttap {

void write_stats(JsonWriter& json, const Stats& stats) {
  json.begin_line();
  json.member("count", stats.count).member("nan", stats.nan).member("pos_inf", stats.pos_inf);
  json.member("neg_inf", stats.neg_inf).member("zeros", stats.zeros).member("subnormals", stats.subnormals);
  json.member("min", stats.min).member("max", stats.max).member("max_abs", stats.max_abs);
  json.member("min_abs_nonzero", stats.min_abs_nonzero).member("mean", stats.mean).member("std", stats.std);
  json.member("l1", stats.l1).member("l2", stats.l2);
  json.end();
}

void write_tensor_members(JsonWriter& json, size_t index, const TensorRecord& tensor) {
  json.member("index", index).member("key", to_string(tensor.key()));
  json.member("name", tensor.name)
      .member("call", tensor.call)
      .member("role", tensor.role)
      .member("tensor_path", tensor.path);
  json.member("dtype", dtype_name(tensor.true_dtype.value_or(tensor.dtype)))
      .member("stored_dtype", dtype_name(tensor.dtype));
  json.member("shape", tensor.shape);
  json.key("strides");
  tensor.strides.empty() ? json.null() : json.value(tensor.strides);
  json.member("device", tensor.device).member("level", to_string(tensor.level));
  json.member("has_bytes", tensor.has_bytes).member("bytes", tensor.byte_count);
  json.key("group");
  is_json(tensor.group) ? json.raw(tensor.group) : json.null();
  json.key("hash");
  tensor.has_fingerprint ? json.value(to_string(tensor.fingerprint.hash)) : json.null();
}

}  // namespace ttap
