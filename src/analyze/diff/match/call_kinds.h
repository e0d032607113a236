#pragma once

#include <vector>

#include "analyze/diff/sides/side.h"

namespace ttap {

// What the calls of a side are, whatever their names; per event.
struct CallKinds {
  explicit CallKinds(const Side& side);

  std::vector<bool> inner;     // it has calls of modules inside
  std::vector<bool> hands_on;  // it returns nothing but what was there before, as dropout does

  // Whether a tensor is of such a call; not where it has none.
  bool is_inner(const TensorRecord& record) const { return record.event < inner.size() && inner[record.event]; }
  bool is_handed_on(const TensorRecord& record) const {
    return record.event < hands_on.size() && hands_on[record.event];
  }
};

}  // namespace ttap
