#include "capture/ops/op_log.h"

#include <algorithm>
#include <limits>

#include "capture/process.h"
#include "core/logical_copy.h"
#include "ttap/fingerprint.h"

namespace ttap {
namespace {

constexpr uint64_t kReplayRingBytes = uint64_t{64} << 20;
constexpr uint64_t kLooksApart = uint64_t{16} << 10;  // bytes between two looks at the limit
constexpr uint64_t kBytesOfMeta = sizeof(TensorMeta) + 64;
constexpr size_t kMostAwaited = 16384;  // before those that have arrived are taken

}  // namespace

OpLog::OpLog(const TextTable& texts, const std::deque<TensorMeta>& metas, const std::deque<OpPlace>& places,
             const OpLogOptions& options)
    : texts_(texts),
      metas_(metas),
      places_(places),
      options_(options),
      started_unix_ns_(unix_ns()),
      started_ns_(steady_ns()),
      graphs_([this](GraphPass& graph) { return take_replay(graph); }, {.bytes = kReplayRingBytes}, 0) {
  add_bytes(0);
}

uint32_t OpLog::find_thread(uint64_t number) {
  const auto index = static_cast<uint32_t>(std::find(threads_.begin(), threads_.end(), number) - threads_.begin());
  if (index == threads_.size()) threads_.push_back(number);
  return last_thread_ = index;
}

void OpLog::begin(OpCall& call) { call.number = begun_++; }
void OpLog::begin_shaped(ShapedCall& call) { call.number = begun_++; }
void OpLog::take_back(OpCall& /*call*/) { ++taken_back_; }

void OpLog::take(OpCall& call, const OpTensor& tensor, const OpTensorSource& source) {
  OpTensor& taken = call.tensors.emplace_back(tensor);
  if (tensor.asked == Level::kMeta || tensor.same_as != 0) return;
  if (source.on_gpu.later || source.on_gpu.tap != kNoTap) {
    taken.on_gpu = static_cast<uint32_t>(call.on_gpu.size());
    call.on_gpu.push_back(source.on_gpu);
    return;
  }
  if (tensor.asked == Level::kFull) {
    const LogicalCopy bytes(source.view);
    taken.blob = static_cast<uint32_t>(call.blobs.size());
    std::vector<std::byte>& blob = call.blobs.emplace_back(bytes.elements() * bytes.element_size());
    bytes.copy(0, bytes.elements(), blob.data());
  }
  taken.fingerprint = static_cast<uint32_t>(call.fingerprints.size());
  call.fingerprints.push_back(
      source.known != nullptr ? *source.known : fingerprint(source.view, {.sketch = keeps_sketch(tensor.asked)}));
}

// Texts and shapes, which calls have in common, count as well.
void OpLog::look_at_limit() {
  const uint64_t used = bytes_ + texts_.bytes() + metas_.size() * kBytesOfMeta;
  full_ = used >= options_.limit_bytes;
  look_at_ = full_ ? std::numeric_limits<uint64_t>::max() : bytes_ + std::min(kLooksApart, options_.limit_bytes - used);
}

[[gnu::always_inline]] inline OpLog::Call& OpLog::add_row(const OpHead& call, size_t uses, size_t tensors,
                                                          bool only_shapes) {
  const uint64_t duration = call.end_ns - call.start_ns;
  Call& row = calls_.append();
  row.number = call.number;
  row.name = call.name;
  row.parent = call.parent;
  row.forward = call.forward;
  row.stack = call.stack;
  row.arguments = call.arguments;
  row.results = call.results;
  row.notes = call.notes;
  row.thread = thread_of(call.thread);
  row.use_count = uses & kMostCount;
  row.tensor_count = tensors & kMostCount;
  row.kind = static_cast<uint8_t>(call.kind) & 7;
  row.only_shapes = only_shapes;
  row.graph = call.graph != nullptr ? graph_index(*call.graph) : uint16_t{0};
  row.duration_ns = static_cast<uint32_t>(std::min<uint64_t>(duration, std::numeric_limits<uint32_t>::max()));
  row.start_ns = call.start_ns;
  return row;
}

void OpLog::end_shaped(const ShapedCall& call) {
  Call& row = add_row(call, call.count, call.count, true);
  row.first_use = static_cast<uint32_t>(shapes_.size());
  row.first_tensor = 0;
  for (uint32_t i = 0; i < call.count; ++i) shapes_.append() = call.shapes[i];
  add_bytes(sizeof(Call) + call.count * sizeof(OpShape));
}

void OpLog::end(OpCall& call) {
  const size_t use_count = std::min<size_t>(call.uses.size(), kMostCount);
  const size_t tensor_count = std::min<size_t>(call.tensors.size(), kMostCount);
  Call& row = add_row(call, use_count, tensor_count, false);
  row.first_use = static_cast<uint32_t>(uses_.size());
  row.first_tensor = static_cast<uint32_t>(tensors_.size());
  for (size_t i = 0; i < use_count; ++i) {
    const OpUse& use = call.uses[i];
    uses_.append() = {use.place, use.tensor, use.value << 1 | (use.written ? 1U : 0U)};
  }
  for (size_t i = 0; i < tensor_count; ++i) {
    const OpTensor& tensor = call.tensors[i];
    Tensor& kept = tensors_.append();
    kept = {tensor.place, tensor.meta, tensor.value, kNoNumber, kNoNumber, tensor.asked, kNoTap};
    if (tensor.has_more()) keep_more(call, tensor, kept);
  }
  add_bytes(sizeof(Call) + use_count * sizeof(Use) + tensor_count * sizeof(Tensor));
}

// The tensor is the last row.
void OpLog::keep_more(OpCall& call, const OpTensor& tensor, Tensor& row) {
  if (tensor.group != 0) groups_.emplace(tensors_.size() - 1, tensor.group);
  if (tensor.same_as != 0) twins_.push_back({tensors_.size() - 1, tensor.same_as});
  if (tensor.on_gpu != kNoNumber) {
    const TensorOnGpu& on_gpu = call.on_gpu[tensor.on_gpu];
    row.tap = on_gpu.tap;
    if (on_gpu.later) awaited_.push_back({tensors_.size() - 1, on_gpu.later});
    if (awaited_.size() >= kMostAwaited) take_what_has_arrived(Wait::kForNone);
  }
  if (tensor.fingerprint != kNoNumber) {
    row.fingerprint = static_cast<uint32_t>(fingerprints_.size());
    fingerprints_.append() = call.fingerprints[tensor.fingerprint];
    add_bytes(sizeof(Fingerprint));
  }
  if (tensor.blob != kNoNumber) {
    row.bytes = static_cast<uint32_t>(blobs_.size());
    add_bytes(call.blobs[tensor.blob].size());
    blobs_.push_back(std::move(call.blobs[tensor.blob]));
  }
}

}  // namespace ttap
