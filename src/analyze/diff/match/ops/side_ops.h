#pragma once

#include <optional>

#include "analyze/diff/match/ops/op_list.h"
#include "analyze/diff/match/ops/op_uses.h"
#include "analyze/diff/sides/side.h"

namespace ttap {

// The ops of one side, listed when they are first asked for, and once for the whole comparison. For one thread.
class SideOps {
 public:
  SideOps(const Side& side) : side_(side) {}  // NOLINT(google-explicit-constructor): whoever asks once has a side
  SideOps(const SideOps&) = delete;
  SideOps& operator=(const SideOps&) = delete;

  const Side& side() const { return side_; }
  const OpList& list() const {
    if (!list_) list_.emplace(side_);
    return *list_;
  }
  const OpUses& uses() const {
    if (!uses_) uses_.emplace(list());
    return *uses_;
  }

 private:
  const Side& side_;
  mutable std::optional<OpList> list_;
  mutable std::optional<OpUses> uses_;
};

}  // namespace ttap
