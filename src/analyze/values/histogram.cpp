#include "analyze/values/histogram.h"

#include <cmath>

#include "analyze/values/scan.h"

namespace ttap {
namespace {

template <class Value>
bool counts(Value value) {
  if constexpr (std::is_floating_point_v<Value>) return std::isfinite(value);
  return true;
}

template <class Value>
struct Range {
  Value min{};
  Value max{};
  uint64_t finite = 0;
  uint64_t nonfinite = 0;
};

template <class Element>
auto range_of(const TensorView& view) {
  Range<typename Element::Value> range;
  for_each_value<Element>(view, [&](uint64_t, int, auto value) {
    if (!counts(value)) {
      ++range.nonfinite;
    } else if (range.finite++ == 0) {
      range.min = range.max = value;
    } else {
      range.min = std::min(range.min, value);
      range.max = std::max(range.max, value);
    }
    return true;
  });
  return range;
}

template <class Element>
void count_integers(const TensorView& view, const Range<typename Element::Value>& range, size_t wanted,
                    Histogram& result) {
  using Value = typename Element::Value;
  // In unsigned arithmetic, where max − min never overflows.
  const auto base = static_cast<uint64_t>(range.min);
  const uint64_t span = static_cast<uint64_t>(range.max) - base;
  const uint64_t width = span / wanted + 1;
  result.bins.resize(span / width + 1);
  for (size_t i = 0; i < result.bins.size(); ++i) {
    const uint64_t offset = i * width;
    result.bins[i].low = static_cast<Value>(base + offset);
    result.bins[i].high = static_cast<Value>(base + (span - offset < width ? span : offset + width - 1));
  }
  for_each_value<Element>(view, [&](uint64_t, int, Value value) {
    ++result.bins[(static_cast<uint64_t>(value) - base) / width].count;
    return true;
  });
}

template <class Element>
void count_floats(const TensorView& view, const Range<double>& range, size_t wanted, Histogram& result) {
  const size_t bins = range.min == range.max ? 1 : wanted;
  // Halved where the distance itself is beyond the largest double.
  const double unit = std::isfinite(range.max - range.min) ? 1 : 0.5;
  const double span = range.max * unit - range.min * unit;
  std::vector<double> edges(bins + 1);
  for (size_t i = 0; i <= bins; ++i)
    edges[i] = (range.min * unit + span * (static_cast<double>(i) / static_cast<double>(bins))) / unit;
  edges.front() = range.min;
  edges.back() = range.max;
  std::vector<uint64_t> count(bins);
  for_each_value<Element>(view, [&](uint64_t, int, double value) {
    if (!std::isfinite(value)) return true;
    size_t bin = 0;
    if (bins > 1) {
      const double place = (value * unit - range.min * unit) / span * static_cast<double>(bins);
      bin = std::min(static_cast<size_t>(place), bins - 1);
      // The division rounds; the edges decide.
      while (bin > 0 && value < edges[bin]) --bin;
      while (bin + 1 < bins && value >= edges[bin + 1]) ++bin;
    }
    ++count[bin];
    return true;
  });
  result.bins.resize(bins);
  for (size_t i = 0; i < bins; ++i) result.bins[i] = {edges[i], edges[i + 1], count[i]};
}

}  // namespace

Histogram histogram(const TensorView& view, size_t bins) {
  TTAP_CHECK(bins >= 1);
  Histogram result;
  with_element_type(view.dtype, [&](auto type) {
    using Element = decltype(type);
    const auto range = range_of<Element>(view);
    result.finite = range.finite;
    result.nonfinite = range.nonfinite;
    if (range.finite == 0) return;
    if constexpr (Element::kFloat) {
      count_floats<Element>(view, range, bins, result);
    } else {
      count_integers<Element>(view, range, bins, result);
    }
  });
  return result;
}

}  // namespace ttap
