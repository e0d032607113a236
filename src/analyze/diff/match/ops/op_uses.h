#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analyze/diff/match/ops/op_list.h"

namespace ttap {

// The way from a value to the ops that were given it, or bytes of it.
class OpUses {
 public:
  explicit OpUses(const OpList& list);

  // In the order of execution; one that was given it twice is there twice.
  std::span<const uint32_t> of(uint32_t tensor) const {
    return std::span(users_).subspan(first_[tensor], first_[tensor + 1] - first_[tensor]);
  }

 private:
  std::vector<uint32_t> first_;  // per tensor, and one more
  std::vector<uint32_t> users_;
};

}  // namespace ttap
