#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analyze/diff/sides/side.h"

namespace ttap::test {

// A side that only has records, without bytes.
class MemorySide final : public Side {
 public:
  struct Tensor {
    std::string key;
    std::vector<int64_t> shape = {4};
    std::string kind = {};    // of an event of its own, when there is one
    std::string parent = {};  // the name of that event's parent
    DType dtype = DType::kF32;
  };

  MemorySide(std::initializer_list<Tensor> tensors) {
    for (const Tensor& tensor : tensors) add(tensor);
  }

  void add(const Tensor& tensor) {
    auto key = parse_key(tensor.key);
    TTAP_CHECK(key.ok());
    const Kept& kept = kept_.emplace_back(Kept{tensor, std::move(key).value()});
    TensorRecord record;
    record.name = kept.key.name;
    record.call = kept.key.call;
    record.role = kept.key.role;
    record.path = kept.key.path;
    record.dtype = tensor.dtype;
    record.shape = kept.tensor.shape;
    if (!tensor.kind.empty()) {
      uint32_t parent = kNoEvent;
      if (!tensor.parent.empty()) {
        parent = static_cast<uint32_t>(events_.size());
        events_.push_back({.name = kept.tensor.parent, .kind = "module", .stack = {}});
      }
      record.event = static_cast<uint32_t>(events_.size());
      events_.push_back(
          {.name = kept.key.name, .kind = kept.tensor.kind, .call = kept.key.call, .parent = parent, .stack = {}});
    }
    tensors_.push_back(record);
  }

  size_t tensor_count() const override { return tensors_.size(); }
  TensorRecord tensor(size_t index) const override { return tensors_[index]; }
  size_t event_count() const override { return events_.size(); }
  EventRecord event(size_t index) const override { return events_[index]; }
  Result<SideBytes> read(size_t) const override {
    return Error{.code = ErrorCode::kNotRecorded, .message = "it only has records"};
  }
  const PassInfo& info() const override { return info_; }
  std::string place() const override { return "memory"; }

 private:
  struct Kept {
    Tensor tensor;
    Key key;
  };
  std::deque<Kept> kept_;
  std::vector<TensorRecord> tensors_;
  std::vector<EventRecord> events_;
  PassInfo info_;
};

}  // namespace ttap::test
