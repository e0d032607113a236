#include <algorithm>

#include "torch/frame.h"
#include "torch/gpu/cuda_stream.h"
#include "torch/link.h"
#include "torch/observer.h"

// Tensors on a GPU: never read by the host, never waited for.
namespace ttap::torch_source {
namespace {

constexpr std::string_view kNoTaps = "captured into a graph that cannot be tapped";
constexpr std::string_view kNoPlace = "no room for results from the GPU";

// Made by this call, and nobody else's: no view of another, nor written to since it was made.
bool is_new(const at::Tensor& result) {
  const c10::TensorImpl& tensor = *result.unsafeGetTensorImpl();
  return tensor.version_counter().enabled() && tensor.version_counter().current_version() == 0 &&
         tensor.has_storage() && tensor.storage().use_count() == 1;
}

}  // namespace

// What waits to be read must be read before the call can change it, or give its memory to another.
void Observer::launch_before(const Operator& op, const Frame& frame) {
  bool now = gpu_.is_elsewhere();
  if (op.writes)
    for (const TensorPlace& place : frame.places)
      now = now || (op.arguments[place.argument].written && gpu_.would_change(*place.tensor));
  if (now) gpu_.launch_all();
}

void Observer::launch_before_writing(Frame& frame) {
  if (!frame.has_rare) return;
  const auto& written = frame.rare().written;
  if (std::any_of(written.begin(), written.end(), [&](const auto& each) { return gpu_.would_change(each.tensor); }))
    gpu_.launch_all();
}

GraphPass* Observer::graph_here() {
  if (!GpuTaps::work()) return nullptr;
  const int device = cuda::current_device();
  const cuda::Stream stream = CudaStreams::current(device);
  return cuda::capture_number(stream) != 0 ? sink_->graph(device, stream) : nullptr;
}

void Observer::send_to_gpu(Frame& frame) {
  for (Frame::Pending& each : frame.rare().pending) {
    const at::Tensor& tensor = each.tensor;
    if (!tensor.defined() || !tensor.is_cuda() || each.known) continue;
    const auto not_read = [&](std::string_view reason) {
      note_unread(frame, each.record.place, reason);
      each.record.asked = Level::kMeta;
      each.way = Frame::Way::kNotRead;
    };
    if (!GpuTaps::work() || tensor.is_conj() || tensor.is_neg()) {
      if (GpuTaps::is_capturing()) not_read(kNoTaps);  // else copied to the host, which would end a capture
      continue;
    }
    const TensorView view{tensor.const_data_ptr(), each.meta->dtype, each.meta->shape, each.meta->strides};
    const bool is_captured = frame.call.graph != nullptr || GpuTaps::capture_of(tensor.device().index()) != 0;
    const bool shares = options_.ids && !options_.unseen_writes && sink_->shares_fingerprints() &&
                        keeps_fingerprint_only(each.record.asked) && gpu_.rows_of(view).count == nullptr;
    if (shares && is_captured == (frame.call.graph != nullptr)) {
      const auto twin = tensors_.on_its_way(tensor, each.record.meta, frame.call.graph);
      if (twin.value != 0 && !dropped_values_.contains(twin.value)) {
        each.way = twin.graph != nullptr ? Frame::Way::kTapped : Frame::Way::kTwin;
        each.tap = twin.tap;
        if (twin.graph == nullptr) each.record.same_as = twin.value;
        continue;
      }
    }
    const GpuTaps::Hold hold = frame.backward || options_.unseen_writes ? GpuTaps::Hold::kNo
                               : each.role == "out" && is_new(tensor)   ? GpuTaps::Hold::kYes
                                                                        : GpuTaps::Hold::kIfSmall;
    if (frame.call.graph != nullptr) {
      const auto tap = gpu_.tap(*frame.call.graph, tensor, view, each.record.asked, hold);
      if (!tap.ok()) {
        not_read(kNoTaps);
        continue;
      }
      each.way = Frame::Way::kTapped;
      each.tap = tap->place.number;
      each.record.asked = tap->level;
      if (shares && keeps_fingerprint_only(tap->level))
        tensors_.set_on_its_way(tensor, each.record.meta, {each.record.value, frame.call.graph, each.tap});
    } else if (is_captured) {
      not_read(kNoTaps);
    } else if (keeps_fingerprint_only(each.record.asked)) {
      GpuTaps::Deliver deliver;
      if (sink_->takes_at_launch())
        deliver = [this, event = frame.call.event, record = each.record,
                   source = OpTensorSource{.view = {nullptr, view.dtype, view.shape, view.strides},
                                           .role = each.role,
                                           .path = each.path,
                                           .device = each.device}](const cuda::PendingResult& pending) {
          OpTensor tensor_record = record;
          OpTensorSource with_result = source;
          with_result.on_gpu.later = pending;
          if (!pending) tensor_record.asked = Level::kMeta;
          sink_->deliver(event, tensor_record, with_result);
        };
      each.way = sink_->takes_at_launch() ? Frame::Way::kDelivered : Frame::Way::kLater;
      each.later = gpu_.fingerprint(tensor, view, each.record.asked, hold, std::move(deliver));
      if (!each.later)
        not_read(kNoPlace);
      else if (shares)
        tensors_.set_on_its_way(tensor, each.record.meta, {.value = each.record.value});
    } else if (sink_->copies_from_gpu()) {
      each.way = Frame::Way::kCopied;
    }
  }
}

// ---- what happens past the operators ----

void Observer::launch_waiting() {
  const std::shared_ptr<Link> link = link_;
  const auto lock = lock_from_outside(*link);
  if (link->observer == this && gpu_.waiting()) gpu_.launch_all();
}

// Graphs write to tensors without an operator that says so: no value that was known is known any more.
void Observer::forget_values() {
  const std::shared_ptr<Link> link = link_;
  const auto lock = lock_from_outside(*link);
  if (link->observer != this) return;
  if (gpu_.waiting()) gpu_.launch_all();
  tensors_.forget_values();
}

void Observer::end_capture() {
  if (!GpuTaps::work()) return;
  const std::shared_ptr<Link> link = link_;
  const auto lock = lock_from_outside(*link);
  if (link->observer != this) return;
  const cuda::Stream stream = CudaStreams::current(cuda::current_device());
  gpu_.end_capture(cuda::current_device(), stream);
  sink_->end_capture(stream);
  tensors_.forget_values();
}

}  // namespace ttap::torch_source
