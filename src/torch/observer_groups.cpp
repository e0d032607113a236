#include <algorithm>
#include <utility>

#include "torch/frame.h"
#include "torch/link.h"
#include "torch/observer.h"

// Quantized tensors, which only Python can take apart: their parts and values in place of the tensor.
namespace ttap::torch_source {

bool Observer::read_groups(Frame& frame, std::unique_lock<SpinLock>& lock) {
  std::vector<Frame::Pending>& all = frame.rare().pending;
  if (std::none_of(all.begin(), all.end(), [](const Frame::Pending& each) { return each.is_subclass; })) return true;
  std::vector<std::vector<PythonSide::Part>> parts(all.size());
  const std::shared_ptr<Link> link = link_;
  {
    const Unlocked unlocked(*link, lock);
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i].is_subclass) parts[i] = python_.take_apart(all[i].tensor);
  }
  if (link->observer != this) {
    all.clear();
    return false;
  }
  tensors_.set_pass(frame.call.pass);
  std::vector<Frame::Pending> whole = std::exchange(all, {});
  for (size_t i = 0; i < whole.size(); ++i) {
    Frame::Pending& each = whole[i];
    if (each.is_subclass && parts[i].empty()) {
      note_unread(frame, each.record.place, kSubclass);
      each.is_subclass = false;
      each.tensor = at::Tensor();
      each.record.asked = Level::kMeta;
    }
    if (!each.is_subclass) {
      all.push_back(std::move(each));
      continue;
    }
    for (const PythonSide::Part& part : parts[i]) add_part(frame, each.record, part);
    if (options_.ids) tensors_.set_read(each.tensor, each.record.meta);
  }
  return true;
}

// The first part is what uses of the tensor refer to.
void Observer::add_part(Frame& frame, const OpTensor& whole, const PythonSide::Part& part) {
  const OpPlace own = places_.all()[whole.place];
  OpTensor record{.place = whole.place, .meta = whole.meta, .asked = Level::kMeta};
  if (!part.path.empty()) record.place = places_.of(own.role, std::string(texts_.text(own.path)) + part.path);
  std::string_view reason = part.why;
  if (part.tensor.defined()) {
    record.meta = tensors_.meta_of(part.tensor);
    if (reason.empty()) reason = unreadable(part.tensor);
    if (reason.empty()) record.asked = part.are_values ? std::min(whole.asked, Level::kSketch) : whole.asked;
  }
  if (!reason.empty()) note_unread(frame, record.place, reason);
  if (!part.group.empty()) record.group = texts_.intern(part.group);
  if (part.are_values && part.path.empty()) {
    record.value = whole.value;
  } else if (options_.ids && record.asked != Level::kMeta && !part.are_values &&
             !tensors_.value_of(part.tensor, record.meta)) {
    // What is called inside refers to the part.
    record.value = next_value_++;
    tensors_.set_value(part.tensor, record.meta, record.value);
  }
  Frame::Pending& pending =
      frame.add_pending(record, tensors_.metas()[record.meta], places_.all()[record.place], texts_);
  if (record.asked != Level::kMeta) pending.tensor = part.tensor;
}

}  // namespace ttap::torch_source
