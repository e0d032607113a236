#include "capture/graph_pass.h"

#include <algorithm>

namespace ttap {

std::atomic<uint64_t> GraphPass::next_number_{1};

namespace {

uint64_t key_of(const Event& event) { return uint64_t{event.pass} << 32 | event.number; }

}  // namespace

std::optional<uint32_t> GraphPass::index_of(const Event& event) const {
  const auto found = event.number == kNoEvent ? indices_.end() : indices_.find(key_of(event));
  return found == indices_.end() ? std::nullopt : std::optional(found->second);
}

// ---- while the graph is captured ----

void GraphPass::add_event(const EventInfo& info, const Event& event) {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<uint32_t>(calls_.size());
  calls_.push_back({.name = std::string(info.name),
                    .kind = std::string(info.kind),
                    .stack = std::string(info.stack),
                    .parent = index_of(info.parent).value_or(kNoEvent),
                    .level = event.level,
                    .again = info.again,
                    .arguments = {},
                    .results = {},
                    .notes = {},
                    .uses = {}});
  steps_.push_back({Kind::kBegin, index});
  if (event.number != kNoEvent) indices_[key_of(event)] = index;
}

void GraphPass::add_tensor(const Event& event, const TensorView& tensor, const Place& place, Level level,
                           uint32_t tap) {
  const std::lock_guard lock(mutex_);
  const auto call = index_of(event);
  if (!call) return;
  steps_.push_back({Kind::kTensor, static_cast<uint32_t>(tensors_.size())});
  tensors_.push_back({.call = *call,
                      .role = std::string(place.role),
                      .path = std::string(place.path),
                      .device = std::string(place.device),
                      .group = std::string(place.group),
                      .dtype = tensor.dtype,
                      .shape = {tensor.shape.begin(), tensor.shape.end()},
                      .strides = {tensor.strides.begin(), tensor.strides.end()},
                      .value = place.value,
                      .level = level,
                      .tap = tap,
                      .bytes = byte_count(tensor)});
}

void GraphPass::end_event(const Event& event, const CallInfo& info) {
  const std::lock_guard lock(mutex_);
  const auto index = index_of(event);
  if (!index || calls_[*index].ended) return;
  Call& call = calls_[*index];
  call.ended = true;
  call.arguments = info.arguments;
  call.results = info.results;
  call.notes = info.notes;
  call.forward = index_of(info.forward).value_or(kNoEvent);
  for (const Use& use : info.uses)
    call.uses.push_back({std::string(use.role), std::string(use.path), use.tensor, use.value, use.written});
  steps_.push_back({Kind::kEnd, *index});
}

Result<GraphPass::Tap> GraphPass::add_tap(Level level, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  Tap tap{.place = {}, .level = level};
  if (level == Level::kFull && memory_->copied_bytes() + bytes > most_copied_bytes_) {
    tap.level = Level::kSketch;
    ++not_copied_;
  }
  TTAP_ASSIGN(tap.place, memory_->add_tap(tap.level == Level::kFull ? bytes : 0));
  return tap;
}

Result<GraphPass::Tap> GraphPass::tap(const TensorView& tensor, const OnGpu& where, Level level) {
  if (where.device != memory_->device())
    return Error{.code = ErrorCode::kUnsupported, .message = "the tensor is on another GPU than the graph"};
  TTAP_ASSIGN(Tap made, add_tap(level, byte_count(tensor)));
  auto* const stream = static_cast<cuda::Stream>(where.stream);
  void* scratch = nullptr;
  {
    const std::lock_guard lock(mutex_);
    TTAP_ASSIGN(scratch, memory_->scratch(stream));
  }
  const cuda::FingerprintJob job{.view = tensor,
                                 .rows = {where.rows, where.rows_are_64_bit},
                                 .copy_to = made.place.copy,
                                 .result = made.place.result,
                                 .is_watched = false,
                                 .sequence = 1,
                                 .is_sketched = keeps_sketch(made.level)};
  const cuda::OnDevice on(where.device);
  TTAP_TRY(cuda::launch_fingerprints({&job, 1}, scratch, stream));
  return made;
}

Status GraphPass::finish(cuda::Stream stream, const cuda::GraphMemory::RingOptions& options) {
  const std::lock_guard lock(mutex_);
  if (memory_->is_finished() || memory_->taps() == 0) return {};
  return memory_->finish(stream, options);
}

// ---- when it is replayed ----

void GraphPass::record_tensor(Recorder& recorder, const Event& event, const Tensor& tensor,
                              const cuda::ReplayRing::Entry& entry) const {
  Place place{
      .role = tensor.role, .path = tensor.path, .device = tensor.device, .value = tensor.value, .group = tensor.group};
  TensorView view{nullptr, tensor.dtype, tensor.shape, tensor.strides};
  if (tensor.tap == kNoTap) {
    place.at_most = Level::kMeta;
    (void)recorder.try_capture(event, view, place);
    return;
  }
  const cuda::DeviceResult& result = memory_->result(entry, tensor.tap);
  if (!cuda::is_there(result) || result.bytes > tensor.bytes) {  // its launch failed when the graph was captured
    place.at_most = Level::kMeta;
    (void)recorder.try_capture(event, view, place);
    (void)recorder.count_unsupported("a tensor of a CUDA graph", "its tap could not be launched", event.pass);
    return;
  }
  const Fingerprint fingerprint = cuda::to_fingerprint(result);
  std::vector<int64_t> live_shape;
  if (result.bytes != tensor.bytes && !tensor.shape.empty() && tensor.bytes > 0) {
    // Its rows were limited when the replay came to it.
    live_shape = tensor.shape;
    live_shape[0] = static_cast<int64_t>(result.bytes / (tensor.bytes / static_cast<uint64_t>(tensor.shape[0])));
    view.shape = live_shape;
  }
  place.known = &fingerprint;
  place.at_most = tensor.level;
  if (tensor.level == Level::kFull) {
    view.data = memory_->copy(entry, tensor.tap, result.bytes).data();
    view.strides = {};
  }
  (void)recorder.try_capture(event, view, place);
}

bool GraphPass::take_replay(Recorder& recorder) {
  const auto entry = memory_->ring().next();
  if (!entry) return false;
  const uint32_t pass = recorder.open_pass();
  events_.assign(calls_.size(), Event{});
  for (const Step& step : steps_) {
    if (step.kind == Kind::kTensor) {
      const Tensor& tensor = tensors_[step.index];
      record_tensor(recorder, events_[tensor.call], tensor, *entry);
      continue;
    }
    const Call& call = calls_[step.index];
    if (step.kind == Kind::kBegin) {
      events_[step.index] = recorder.begin_event({.name = call.name,
                                                  .kind = call.kind,
                                                  .parent = call.parent == kNoEvent ? Event{} : events_[call.parent],
                                                  .stack = call.stack,
                                                  .pass = pass,
                                                  .level = call.level,
                                                  .again = call.again});
      continue;
    }
    std::vector<Use> uses;
    uses.reserve(call.uses.size());
    for (const OwnUse& use : call.uses) uses.push_back({use.role, use.path, use.tensor, use.value, use.written});
    recorder.end_event(events_[step.index], {.arguments = call.arguments,
                                             .results = call.results,
                                             .notes = call.notes,
                                             .forward = call.forward == kNoEvent ? Event{} : events_[call.forward],
                                             .uses = uses});
  }
  // Overwritten while it was read, where replays do not wait: what was recorded is void, and the pass says so.
  const bool whole = memory_->ring().release(*entry);
  recorder.close_pass(pass, whole ? Ending::kComplete : Ending::kAborted);
  count_replay(whole);
  return true;
}

}  // namespace ttap
