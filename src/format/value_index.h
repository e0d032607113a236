#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ttap/record.h"

namespace ttap::format {

class SegmentView;

// From the value of a tensor row to the number of the row. Where two rows have the same value the first has it.
class ValueIndex {
 public:
  ValueIndex() = default;
  explicit ValueIndex(const SegmentView& view);

  // kNoNumber when no row has it.
  uint32_t row_of(uint32_t value) const;

 private:
  struct Entry {
    uint32_t value;
    uint32_t row;
    auto operator<=>(const Entry&) const = default;
  };
  std::vector<Entry> entries_;  // by value
};

}  // namespace ttap::format
