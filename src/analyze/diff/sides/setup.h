#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/diff/result/match.h"
#include "analyze/diff/sides/side.h"

namespace ttap {

// Whether it has a call of a module: of a program that has none, nothing tells what is set-up.
bool calls_modules(const Side& side);
// Whether ops ran before the first of these.
bool has_setup(const Side& side);

// A side as though its recording had begun with the first call of a module. The ops before that are its set-up: weights
// are made, loaded, cast and moved there. What they made and a later op uses is what that op was given from outside: a
// record of role in, at the first op that uses it.
class SideWithoutSetup final : public Side {
 public:
  // But for the ops that these records of `side` were made by, and what those were made of.
  explicit SideWithoutSetup(std::shared_ptr<const Side> side, const std::vector<uint32_t>& wanted = {});

  // How many ops are left out.
  size_t setup_count() const { return new_event_.size() - events_.size(); }
  // The number here of an event of the whole side; kNoEvent where it is left out.
  uint32_t number_of(uint32_t event) const { return new_event_[event]; }
  // The record of the whole side that a tensor is, where the set-up made it; kNoTensor for others.
  uint32_t made_in_setup(size_t index) const {
    return tensors_[index].user == kNoEvent ? kNoTensor : tensors_[index].tensor;
  }

  size_t tensor_count() const override { return tensors_.size(); }
  TensorRecord tensor(size_t index) const override;
  size_t event_count() const override { return events_.size(); }
  EventRecord event(size_t index) const override;
  UseRecord use(size_t event, size_t index) const override;
  Result<SideBytes> read(size_t index) const override { return side_->read(tensors_[index].tensor); }
  const PassInfo& info() const override { return side_->info(); }
  std::string place() const override { return side_->place(); }
  std::string note(size_t index) const override { return side_->note(tensors_[index].tensor); }
  std::vector<uint32_t> ranks_of(size_t index, uint64_t element) const override {
    return side_->ranks_of(tensors_[index].tensor, element);
  }
  std::vector<uint32_t> differing_replicas(size_t index) const override {
    return side_->differing_replicas(tensors_[index].tensor);
  }
  Result<SideBytes> read_replica(size_t index, uint32_t rank) const override {
    return side_->read_replica(tensors_[index].tensor, rank);
  }
  std::optional<RecordedRows> recorded_rows(size_t index) const override {
    return side_->recorded_rows(tensors_[index].tensor);
  }
  const ModuleFacts* module(std::string_view name) const override { return side_->module(name); }
  const ModulesByName* optimizers() const override { return side_->optimizers(); }
  Result<QuantPicture> picture(size_t index, const TensorView* twin) const override {
    return side_->picture(tensors_[index].tensor, twin);
  }
  Result<QuantStats> quant_stats(size_t index, const TensorView& twin) const override {
    return side_->quant_stats(tensors_[index].tensor, twin);
  }

 private:
  struct Kept {
    uint32_t tensor = kNoTensor;  // as side_ counts them
    uint32_t user = kNoEvent;     // of what the set-up made: the first event that uses it
    std::string_view path = {};   // as which argument
  };

  bool is_setup(uint32_t event) const { return event < new_event_.size() && new_event_[event] == kNoEvent; }
  void list_tensors();

  std::shared_ptr<const Side> side_;
  std::vector<uint32_t> events_, new_event_;  // side_'s number of each; kNoEvent for one of the set-up
  std::vector<Kept> tensors_;
  std::vector<uint32_t> new_tensor_;
};

}  // namespace ttap
