#pragma once

#include <cmath>
#include <deque>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/op_name.h"
#include "store/segment/segment_writer.h"
#include "store/sources/run_layout.h"
#include "ttap/fingerprint.h"
#include "ttap/tensor_view.h"

// Passes of ops with known contents, threads and times, written without a recorder.
namespace ttap::test {

// One pass on its way into a rank's folder. Every failure aborts: it is the test's.
class SampleOps {
 public:
  explicit SampleOps(const std::filesystem::path& folder, uint32_t number = 0)
      : path_(folder / (pass_stem(number) + ".ttap")), writer_(create(path_, number)) {}

  // A tensor of a call: what is recorded of it, or that it was recorded before.
  struct Tensor {
    std::string_view role = "in";
    std::string_view path = {};
    uint32_t number = kNoNumber;  // `$N`
    bool written = false;
    uint32_t same_as = 0;  // a value that is there already
    std::vector<int64_t> shape = {};
    std::vector<float> values = {};  // none: 0, 1, 2, …
    Level level = Level::kSketch;
    std::vector<int64_t> strides = {};
    std::string_view device = "cpu";
    bool recorded = true;
  };
  struct Call {
    std::string_view name;
    std::string_view kind = "op";
    uint32_t parent = kNoEvent;
    uint64_t thread = 4711;
    std::string_view stack = {};
    std::string_view arguments = {};
    std::string_view results = {};
    std::string_view notes = {};
    uint32_t forward = kNoEvent;
    std::vector<Tensor> tensors = {};
    bool returns = true;
    uint32_t call = 1;
  };
  // Its event; the values of its tensors are then in last_values.
  uint32_t call(const Call& call) {
    const uint32_t event = events_++;
    writer_.add_event(event, {.name = call.name,
                              .kind = call.kind,
                              .call = call.call,
                              .parent = call.parent,
                              .thread = call.thread,
                              .time_ns = 1'000'000 + 2000 * uint64_t{event},
                              .stack = call.stack});
    std::vector<Use> uses;
    last_values.clear();
    for (const Tensor& tensor : call.tensors) {
      uint32_t value = tensor.same_as;
      if (value == 0 && tensor.recorded) value = record(event, call, tensor);
      last_values.push_back(value);
      uses.push_back({tensor.role, tensor.path, tensor.number, value, tensor.written});
    }
    if (call.returns && call.kind != "module") end(event, call, uses, 1000);
    return event;
  }
  // The end of a module, which comes after what it calls.
  void end_module(uint32_t event, std::string_view notes = {}) {
    end(event, {.name = {}, .notes = notes}, {}, 2000 * uint64_t{events_ - event} - 500);
  }

  std::filesystem::path finish() {
    TTAP_CHECK(!writer_.flush().error);
    TTAP_CHECK(writer_.finish(to_json(EndRecord{}), {}).ok());
    return path_;
  }
  void flush() { TTAP_CHECK(!writer_.flush().error); }

  std::vector<uint32_t> last_values;

 private:
  static SegmentWriter create(const std::filesystem::path& path, uint32_t number) {
    std::filesystem::create_directories(path.parent_path());
    auto writer = SegmentWriter::create(path, number, 1'700'000'000'000'000'000 + uint64_t{number} * 1'000'000'000,
                                        R"({"program": "train.py"})", {});
    TTAP_CHECK(writer.ok());
    return std::move(writer).value();
  }

  uint32_t record(uint32_t event, const Call& call, const Tensor& tensor) {
    size_t count = 1;
    for (const int64_t size : tensor.shape) count *= static_cast<size_t>(size);
    std::vector<float> values = tensor.values;
    for (size_t i = values.size(); i < count; ++i) values.push_back(static_cast<float>(i));
    TensorRecord record;
    record.name = call.name;
    record.call = call.call;
    record.role = tensor.role;
    record.path = tensor.path;
    record.event = event;
    record.shape = tensor.shape;
    record.strides = tensor.strides;
    record.device = tensor.device;
    record.level = tensor.level;
    record.byte_count = count * sizeof(float);
    record.has_fingerprint = tensor.level >= Level::kFingerprint;
    record.has_bytes = false;
    record.value = ++values_;
    if (record.has_fingerprint)
      record.fingerprint =
          fingerprint({values.data(), DType::kF32, tensor.shape, {}}, {.sketch = keeps_sketch(tensor.level)});
    writer_.add_tensor(record, 0, {});
    return record.value;
  }

  void end(uint32_t event, const Call& call, const std::vector<Use>& uses, uint64_t duration_ns) {
    TTAP_CHECK(writer_.add_call(event, {.arguments = call.arguments,
                                        .results = call.results,
                                        .notes = call.notes,
                                        .forward = call.forward,
                                        .duration_ns = duration_ns,
                                        .uses = uses}));
  }

  std::filesystem::path path_;
  SegmentWriter writer_;
  uint32_t events_ = 0;
  uint32_t values_ = 0;
};

// A step of a small model: an op that makes NaN, one that writes in place, a kernel, and the backward.
inline std::filesystem::path write_sample_ops(const std::filesystem::path& rank) {
  SampleOps pass(rank);
  const std::string_view step = "train.py:20 in step\tloss = model(x).sum()";
  const std::string in_torch =
      std::string(step) + "\n/opt/lib/site-packages/torch/nn/modules/module.py:1776 in _call_impl";
  const std::string in_model = in_torch + "\nmodel.py:7 in forward\ty = self.mlp(x).relu_()";
  const std::string in_mlp = in_model + "\n/opt/lib/site-packages/torch/nn/modules/linear.py:134 in forward";
  const std::string at_log = in_torch + "\nmodel.py:8 in forward\treturn y.log()";

  const uint32_t model = pass.call({.name = "model", .kind = "module"});
  const uint32_t mlp = pass.call({.name = "model.mlp", .kind = "module", .parent = model});
  pass.call(
      {.name = "model.mlp:aten::t",
       .parent = mlp,
       .stack = in_mlp,
       .arguments = "%0",
       .results = "%1",
       .tensors = {{.path = "/0", .number = 0, .shape = {2, 3}},
                   {.role = "out", .number = 1, .shape = {3, 2}, .values = {0, 3, 1, 4, 2, 5}, .strides = {1, 3}}}});
  const uint32_t transposed = pass.last_values[1];
  const uint32_t mm = pass.call({.name = "model.mlp:aten::mm",
                                 .parent = mlp,
                                 .stack = in_mlp,
                                 .arguments = "%0, %1",
                                 .results = "%2",
                                 .notes = R"({"hook": {"mem": "8.1 MB", "peak": 9}})",
                                 .tensors = {{.path = "/0", .number = 2, .shape = {1, 3}, .values = {1, -1, 0.5F}},
                                             {.path = "/1", .number = 1, .same_as = transposed},
                                             {.role = "out", .number = 3, .shape = {1, 2}, .values = {0, 1.5F}}}});
  const uint32_t product = pass.last_values[2];
  pass.end_module(mlp, R"({"class": "Linear"})");
  pass.call({.name = "model:aten::relu_",
             .parent = model,
             .stack = in_model,
             .arguments = "%0",
             .results = "%1",
             .tensors = {{.path = "/0", .number = 3, .written = true, .same_as = product},
                         {.role = "out", .number = 3, .same_as = product}}});
  const uint32_t log = pass.call({.name = "model:aten::log",
                                  .parent = model,
                                  .stack = at_log,
                                  .arguments = "%0",
                                  .results = "%1",
                                  .tensors = {{.path = "/0", .number = 3, .same_as = product},
                                              {.role = "out",
                                               .number = 4,
                                               .shape = {1, 2},
                                               .values = {-std::numeric_limits<float>::infinity(), 0.4054651F}}}});
  const uint32_t logs = pass.last_values[1];
  pass.end_module(model, R"({"class": "Model"})");
  pass.call({.name = "triton::triton_poi_fused_sum_0",
             .kind = "kernel",
             .stack = step,
             .arguments = "in_ptr0=%0, out_ptr0=%1, xnumel=2",
             .tensors = {{.path = "/in_ptr0", .number = 4, .same_as = logs},
                         {.path = "/out_ptr0", .number = 5, .written = true, .shape = {}, .values = {0}},
                         {.role = "after",
                          .path = "/out_ptr0",
                          .number = 5,
                          .shape = {},
                          .values = {-std::numeric_limits<float>::infinity()}}}});
  pass.call({.name = "model:backward:aten::div.Tensor",
             .thread = 4712,
             .arguments = "%0, %1",
             .results = "%2",
             .notes = R"({"node": "LogBackward0"})",
             .forward = log,
             .tensors = {{.path = "/0", .number = 6, .shape = {1, 2}, .values = {1, 1}},
                         {.path = "/1", .number = 3, .same_as = product},
                         {.role = "out",
                          .number = 7,
                          .shape = {1, 2},
                          .values = {std::numeric_limits<float>::infinity(), 0.6666667F}}}});
  const uint32_t gradient = pass.last_values[2];
  pass.call({.name = "model.mlp:backward:aten::mm",
             .thread = 4712,
             .arguments = "%0, %1",
             .results = "%2",
             .notes = R"({"node": "MmBackward0"})",
             .forward = mm,
             .tensors = {{.path = "/0", .number = 8, .shape = {3, 1}, .values = {1, -1, 0.5F}, .strides = {1, 3}},
                         {.path = "/1", .number = 7, .same_as = gradient},
                         {.role = "out", .number = 9, .shape = {3, 2}, .level = Level::kMeta}}});
  pass.call(
      {.name = "aten::_local_scalar_dense", .stack = "train.py:22 in step\tprint(loss.item())", .returns = false});
  return pass.finish();
}

}  // namespace ttap::test
