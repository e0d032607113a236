#pragma once

#include <cstdint>
#include <vector>

#include "analyze/diff/sides/merged_order.h"
#include "analyze/diff/sides/side.h"

// Several passes as one: of the ranks of a step, or of the steps of an engine.
namespace ttap {

// Their events in one order. One stands for all of its name, kind and call, and is as the first pass has it that has
// it. The sides live longer.
class MergedEvents {
 public:
  explicit MergedEvents(std::vector<const Side*> sides);

  size_t size() const { return order_.size(); }
  EventRecord event(size_t index) const;
  // A use of it; its record is that of the pass `side_of(index)`.
  UseRecord use(size_t index, size_t use) const;
  uint32_t side_of(size_t index) const { return places_[index].side; }
  // What an event of a pass became; kNoEvent for one that is not there.
  uint32_t event_of(size_t side, uint32_t event) const;

 private:
  struct Place {
    uint32_t side = 0;
    uint32_t event = 0;
  };
  std::vector<const Side*> sides_;
  MergedOrder order_;
  std::vector<Place> places_;
};

// How the whole ended, and how large it is, with one more pass.
void add_pass(PassInfo& info, const PassInfo& pass);

}  // namespace ttap
