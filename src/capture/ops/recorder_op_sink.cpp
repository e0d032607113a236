#include "capture/ops/recorder_op_sink.h"

#include <utility>

#include "capture/graph_passes.h"
#include "ttap/fingerprint.h"

namespace ttap {
namespace {

Event event_of(uint32_t number, int64_t pass) {
  Event event;
  event.number = number;
  event.pass = static_cast<uint32_t>(pass);
  return event;
}

Place place_of(const OpTensor& tensor, const OpTensorSource& source) {
  Place place{.role = source.role,
              .path = source.path,
              .device = source.device,
              .at_most = tensor.asked,
              .value = tensor.value};
  place.group = source.group;
  place.gpu = source.gpu;
  place.on_gpu = &source.on_gpu;
  return place;
}

}  // namespace

void RecorderOpSink::set_stack(uint32_t number, std::string text) {
  if (number == 0) return;
  if (stacks_.size() < number) stacks_.resize(number);
  stacks_[number - 1] = std::move(text);
}

void RecorderOpSink::begin(OpCall& call) {
  call.event = {};
  call.number = kNoEvent;
  if (call.pass < 0) {
    ++outside_passes_;
    return;
  }
  const bool has_stack = call.stack > 0 && call.stack <= stacks_.size();
  call.event = recorder_.load()->begin_event({.name = texts_.text(call.name),
                                              .kind = to_string(call.kind),
                                              .parent = event_of(call.parent, call.pass),
                                              .stack = has_stack ? std::string_view(stacks_[call.stack - 1]) : "",
                                              .pass = static_cast<uint32_t>(call.pass),
                                              .level = call.level,
                                              .again = false,
                                              .graph = call.graph != nullptr ? call.graph->number() : 0});
  call.number = call.event.number;
}

void RecorderOpSink::take(OpCall& call, const OpTensor& tensor, const OpTensorSource& source) {
  OpTensor& taken = call.tensors.emplace_back(tensor);
  if (!call.event.wanted()) return;
  Place place = place_of(tensor, source);
  // Taken here, so that the source knows it and the same bytes are not read again.
  if (keeps_fingerprint_only(tensor.asked) && !source.gpu && source.on_gpu.tap == kNoTap) {
    taken.fingerprint = static_cast<uint32_t>(call.fingerprints.size());
    call.fingerprints.push_back(
        source.known != nullptr ? *source.known : fingerprint(source.view, {.sketch = keeps_sketch(tensor.asked)}));
    place.known = &call.fingerprints.back();
  }
  recorder_.load()->capture(call.event, source.view, place);
}

void RecorderOpSink::deliver(const Event& event, const OpTensor& tensor, const OpTensorSource& source) {
  if (!event.wanted()) {
    if (source.on_gpu.later) cuda::ResultPool::of_process().abandon(source.on_gpu.later);
    return;
  }
  recorder_.load()->capture(event, source.view, place_of(tensor, source));
}

GraphPass* RecorderOpSink::graph(int device, cuda::Stream stream) {
  Recorder* recorder = recorder_;
  if (recorder == nullptr) return nullptr;
  const auto pass = recorder->graphs_->of_capture(device, stream);
  return pass.ok() ? *pass : nullptr;
}

void RecorderOpSink::end_capture(cuda::Stream stream) {
  if (Recorder* recorder = recorder_) (void)recorder->end_capture(stream);
}

void RecorderOpSink::end(OpCall& call) {
  if (!call.event.wanted()) return;
  uses_.clear();
  for (const OpUse& use : call.uses)
    uses_.push_back({.role = texts_.text(places_[use.place].role),
                     .path = texts_.text(places_[use.place].path),
                     .tensor = use.tensor,
                     .value = use.value,
                     .written = use.written});
  recorder_.load()->end_event(call.event, {.arguments = texts_.text(call.arguments),
                                           .results = texts_.text(call.results),
                                           .notes = texts_.text(call.notes),
                                           .forward = event_of(call.forward, call.pass),
                                           .uses = uses_});
}

}  // namespace ttap
