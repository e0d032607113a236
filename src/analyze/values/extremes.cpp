#include "analyze/values/extremes.h"

#include <cmath>

#include "analyze/values/scan.h"

namespace ttap {
namespace {

uint64_t magnitude(int64_t value) {
  return value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}
uint64_t magnitude(uint64_t value) { return value; }
double magnitude(double value) { return std::fabs(value); }

template <class Element>
void collect(const TensorView& view, size_t limit, Extremes& result) {
  using Value = typename Element::Value;
  using Magnitude = decltype(magnitude(Value{}));
  struct Candidate {
    Magnitude magnitude;
    uint64_t element;
    int part;
    Value value;
  };
  // On top of the heap lies the one to give up next: the smallest, and of equals the last.
  const auto better = [](const Candidate& a, const Candidate& b) {
    if (a.magnitude != b.magnitude) return a.magnitude > b.magnitude;
    return a.element != b.element ? a.element < b.element : a.part < b.part;
  };
  std::vector<Candidate> heap;
  for_each_value<Element>(view, [&](uint64_t element, int part, Value value) {
    if constexpr (Element::kFloat) {
      if (!std::isfinite(value)) {
        if (result.nonfinite_count++ < limit) result.nonfinite.push_back({element, static_cast<uint8_t>(part), value});
        return true;
      }
    }
    const Magnitude size = magnitude(value);
    if (heap.size() < limit) {
      heap.push_back({size, element, part, value});
      std::ranges::push_heap(heap, better);
    } else if (limit > 0 && size > heap.front().magnitude) {
      std::ranges::pop_heap(heap, better);
      heap.back() = {size, element, part, value};
      std::ranges::push_heap(heap, better);
    }
    return true;
  });
  std::ranges::sort_heap(heap, better);
  for (const Candidate& c : heap) result.largest.push_back({c.element, static_cast<uint8_t>(c.part), c.value});
}

}  // namespace

Extremes worst_elements(const TensorView& view, size_t limit) {
  Extremes result;
  with_element_type(view.dtype, [&](auto element) { collect<decltype(element)>(view, limit, result); });
  return result;
}

std::optional<Located> first_nonfinite(const TensorView& view) {
  std::optional<Located> found;
  with_element_type(view.dtype, [&](auto type) {
    using Element = decltype(type);
    if constexpr (Element::kFloat) {
      for_each_value<Element>(view, [&](uint64_t element, int part, double value) {
        if (std::isfinite(value)) return true;
        found = Located{element, static_cast<uint8_t>(part), value};
        return false;
      });
    }
  });
  return found;
}

}  // namespace ttap
