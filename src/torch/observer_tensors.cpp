#include <torch/csrc/distributed/c10d/Work.hpp>

#include <algorithm>

#include "torch/frame.h"
#include "torch/link.h"
#include "torch/notes.h"
#include "torch/observer.h"
#include "torch/tensor_bytes.h"

// The tensors of a call: which they are, which value they hold, and reading them.
namespace ttap::torch_source {

TextId Observer::path_of(const Operator& op, const TensorPlace& place) {
  const TextId path = op.arguments[place.argument].path;
  if (place.item < 0) return path;
  return texts_.intern(std::string(texts_.text(path)) + "/" + std::to_string(place.item));
}

TextId Observer::result_path(const TensorPlace& place, size_t results) {
  std::string path;
  if (results > 1) path = "/" + std::to_string(place.argument);
  if (place.item >= 0) path += "/" + std::to_string(place.item);
  return texts_.intern(path);
}

void Observer::use_tensor(Frame& frame, const at::Tensor& tensor, TextId role, TextId path, const UseOptions& how) {
  OpUse use{.role = role, .path = path, .written = how.written};
  const MetaId meta = tensors_.meta_of(tensor);
  if (options_.ids) {
    use.tensor = tensors_.number_of(tensor);
    const auto known = tensors_.value_of(tensor, meta);
    if (known && (known->has_fingerprint || how.level == Level::kMeta || !how.reason.empty())) {
      use.value = known->value;
      frame.call.uses.push_back(use);
      return;
    }
  }
  use.value = next_value_++;
  frame.call.uses.push_back(use);
  OpTensor record{.role = role,
                  .path = path,
                  .role_text = texts_.text(role),
                  .path_text = texts_.text(path),
                  .device = texts_.text(tensors_.metas()[meta].device),
                  .meta = meta,
                  .value = use.value,
                  .asked = how.level};
  std::string_view reason = how.reason;
  if (how.level != Level::kMeta && reason.empty()) reason = unreadable(tensor);
  if (!reason.empty() && how.level != Level::kMeta) {
    const std::string where = (role == words_.in ? "" : std::string(texts_.text(role))) + std::string(texts_.text(path));
    frame.unread.add(where, json_text(reason));
    record.asked = Level::kMeta;
  }
  if (options_.ids) tensors_.set_value(tensor, meta, use.value);
  Frame::Pending pending{.tensor = record.asked == Level::kMeta ? at::Tensor() : tensor,
                         .record = std::move(record),
                         .meta = &tensors_.metas()[meta]};
  if (pending.tensor.defined() && options_.ids)
    if (const Fingerprint* known = tensors_.fingerprint_of(tensor, meta)) {
      pending.has_known = true;
      pending.known = *known;
    }
  frame.pending.push_back(std::move(pending));
}

bool Observer::note_inputs(Frame& frame, std::unique_lock<std::mutex>& lock) {
  const Operator& op = *frame.op;
  const Level level = options_.inputs ? frame.call.level : Level::kMeta;
  for (const TensorPlace& place : frame.places) {
    const TextId path = path_of(op, place);
    const bool written = op.arguments[place.argument].written;
    use_tensor(frame, *place.tensor, words_.in, path, {.level = level, .written = written});
    if (written) frame.written.push_back({*place.tensor, path});
  }
  const bool attached = take_pending(frame, lock);
  frame.held.clear();
  frame.places.clear();
  return attached;
}

bool Observer::note_results(Frame& frame, c10::ArrayRef<const c10::IValue> results,
                            std::unique_lock<std::mutex>& lock) {
  const Operator& op = *frame.op;
  if (op.is_c10d && !wait_for_collective(frame, results, lock)) return false;
  if (options_.ids)
    for (const Frame::Written& written : frame.written) tensors_.written(written.tensor);
  const size_t first_result = frame.call.uses.size();
  collect_tensors(results, frame.places, frame.held);
  if (op.is_wait && options_.ids)
    for (const TensorPlace& place : frame.places) tensors_.written(*place.tensor);
  UseOptions how{.level = options_.outputs ? frame.call.level : Level::kMeta};
  if (op.result_comes_later) how.reason = "a collective that has not been waited for";
  if (op.fills_nothing) how.reason = "not initialised";
  for (const TensorPlace& place : frame.places) {
    use_tensor(frame, *place.tensor, words_.out, result_path(place, results.size()), how);
    for (Frame::Written& written : frame.written) written.returned |= written.tensor.is_same(*place.tensor);
  }
  for (const Frame::Written& written : frame.written)
    if (!written.returned) use_tensor(frame, written.tensor, words_.after, written.path, how);
  if (!results.empty()) frame.call.results = texts_.intern(results_text(op, results, first_result));
  const bool attached = take_pending(frame, lock);
  frame.held.clear();
  frame.places.clear();
  frame.written.clear();
  return attached;
}

bool Observer::take_pending(Frame& frame, std::unique_lock<std::mutex>& lock) {
  const bool reads = std::any_of(frame.pending.begin(), frame.pending.end(),
                                 [](const Frame::Pending& each) { return each.tensor.defined() && !each.has_known; });
  const size_t first = frame.call.tensors.size();
  const auto take_all = [&] {
    for (Frame::Pending& each : frame.pending) {
      TensorView view{nullptr, each.meta->dtype, each.meta->shape, each.meta->strides};
      TensorBytes bytes;
      if (each.tensor.defined()) view.data = bytes.of(each.tensor, view);
      if (view.data == nullptr && each.tensor.defined() && each.meta->byte_count > 0) each.record.asked = Level::kMeta;
      sink_->take(frame.call, view, each.record, each.has_known ? &each.known : nullptr);
    }
  };
  if (!reads) {
    take_all();
    frame.pending.clear();
    return true;
  }
  const std::shared_ptr<Link> link = link_;
  {
    const Unlocked unlocked(*link, lock);
    take_all();
  }
  if (link->observer != this) {
    frame.pending.clear();
    return false;
  }
  if (options_.ids)
    for (size_t i = 0; i < frame.pending.size() && first + i < frame.call.tensors.size(); ++i)
      if (const OpTensor& taken = frame.call.tensors[first + i]; taken.level != Level::kMeta)
        tensors_.set_fingerprint(frame.pending[i].tensor, taken.meta, taken.fingerprint);
  frame.pending.clear();
  return true;
}

// Reading the result of a collective before it is there would give what was there before. All ranks call their
// collectives in one order, so waiting here cannot lock them up; sends and receives are not waited for.
bool Observer::wait_for_collective(Frame& frame, c10::ArrayRef<const c10::IValue> results,
                                   std::unique_lock<std::mutex>& lock) {
  const std::string& name = frame.op->name;
  const bool waits = options_.outputs && frame.call.level != Level::kMeta && name.find("send") == std::string::npos &&
                     name.find("recv") == std::string::npos;
  for (const c10::IValue& result : results) {
    if (!result.isCustomClass() && !result.isObject()) continue;
    c10::intrusive_ptr<c10d::Work> work;
    try {
      work = result.toCustomClass<c10d::Work>();
    } catch (const c10::Error&) {
      continue;
    }
    if (!work) continue;
    if (!waits) {
      frame.notes.add("work", json_text("not waited for"));
      continue;
    }
    const std::shared_ptr<Link> link = link_;
    {
      const Unlocked unlocked(*link, lock);
      try {
        work->wait();
      } catch (const std::exception&) {
        // The program will meet it when it waits.
      }
    }
    if (link->observer != this) return false;
  }
  return true;
}

}  // namespace ttap::torch_source
