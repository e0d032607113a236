#include "core/number_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

namespace ttap {

Result<NumberSet> NumberSet::parse(std::string_view text, LastRange last) {
  const auto bad = [&] {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("'{}' is not a list of numbers", text),
                 .hint = "write 3, or 0,2, or 1,4-7"};
  };
  NumberSet set;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto take = [&](uint64_t& number) {
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc{}) return false;
    at = next;
    return true;
  };
  while (true) {
    Range range{};
    if (!take(range.first)) return bad();
    range.last = range.first;
    if (at != end && *at == '-') {
      ++at;
      if (at == end && last == LastRange::kMayBeOpen) {
        range.last = UINT64_MAX;
      } else if (!take(range.last) || range.last < range.first) {
        return bad();
      }
    }
    set.ranges_.push_back(range);
    if (at == end) return set;
    if (*at++ != ',') return bad();
  }
}

bool NumberSet::contains(uint64_t number) const {
  return std::ranges::any_of(ranges_, [&](const Range& r) { return r.first <= number && number <= r.last; });
}

std::string NumberSet::text() const {
  std::string text;
  for (const Range& range : ranges_) {
    fmt::format_to(std::back_inserter(text), "{}{}", text.empty() ? "" : ",", range.first);
    if (range.last == UINT64_MAX)
      text += "-";
    else if (range.last != range.first)
      fmt::format_to(std::back_inserter(text), "-{}", range.last);
  }
  return text;
}

std::string ranges_text(std::span<const uint32_t> sorted) {
  std::string text;
  for (size_t i = 0; i < sorted.size();) {
    size_t last = i;
    while (last + 1 < sorted.size() && sorted[last + 1] <= sorted[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += sorted[i] == sorted[last] ? fmt::format("{}", sorted[i]) : fmt::format("{}-{}", sorted[i], sorted[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace ttap
