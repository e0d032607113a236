#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ttap/api.h"
#include "ttap/result.h"

namespace ttap {

// Numbers as people write them: `3`, `0,2`, `1,4-7`; where the last range may be open also `0,10-`.
class TTAP_API NumberSet {
 public:
  enum class LastRange : uint8_t { kClosed, kMayBeOpen };
  static Result<NumberSet> parse(std::string_view text, LastRange last = LastRange::kClosed);
  bool contains(uint64_t number) const;
  std::string text() const;  // as parse() takes it

 private:
  struct Range {
    uint64_t first;
    uint64_t last;
  };
  std::vector<Range> ranges_;
};

// The other way round: sorted numbers as `0-3, 7`.
std::string ranges_text(std::span<const uint32_t> sorted);

}  // namespace ttap
