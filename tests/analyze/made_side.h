#pragma once

#include <deque>
#include <string>
#include <vector>

#include "analyze/diff/sides/side.h"

namespace ttap {

// A side made by hand: calls inside calls, and what went in and came out of them.
class MadeSide final : public Side {
 public:
  // Returns the event; `parent` is one of those returned before.
  uint32_t add_event(std::string name, uint32_t parent = kNoEvent, std::string kind = "module") {
    names_.push_back(std::move(name));
    kinds_.push_back(std::move(kind));
    EventRecord event;
    event.name = names_.back();
    event.kind = kinds_.back();
    event.parent = parent;
    events_.push_back(event);
    return static_cast<uint32_t>(events_.size() - 1);
  }
  uint32_t add_tensor(uint32_t event, std::string_view role = "out", std::vector<int64_t> shape = {2, 3}) {
    shapes_.push_back(std::move(shape));
    TensorRecord tensor;
    tensor.name = events_[event].name;
    tensor.role = role;
    tensor.event = event;
    tensor.shape = shapes_.back();
    tensors_.push_back(tensor);
    return static_cast<uint32_t>(tensors_.size() - 1);
  }
  TensorRecord& at(size_t index) { return tensors_[index]; }

  size_t tensor_count() const override { return tensors_.size(); }
  TensorRecord tensor(size_t index) const override { return tensors_[index]; }
  size_t event_count() const override { return events_.size(); }
  EventRecord event(size_t index) const override { return events_[index]; }
  Result<SideBytes> read(size_t) const override {
    return Error{.code = ErrorCode::kNotRecorded, .message = "made by hand"};
  }
  const PassInfo& info() const override { return info_; }
  std::string place() const override { return "made by hand"; }

 private:
  std::deque<std::string> names_, kinds_;
  std::deque<std::vector<int64_t>> shapes_;
  std::vector<EventRecord> events_;
  std::vector<TensorRecord> tensors_;
  PassInfo info_;
};

}  // namespace ttap
