#include "analyze/compare/detail.h"

#include <algorithm>
#include <cmath>

#include "analyze/compare/pair_reader.h"
#include "fingerprint/fingerprinter.h"

namespace ttap {
namespace {

bool mismatched(double a, double b, const Tolerance& tolerance) {
  return !(std::isfinite(a) && std::isfinite(b)) && !is_close(b, a, tolerance);
}

// Calls visit(first value, piece, distance) for all pairs in order; distance(i) is |b − a|.
template <class Visit>
void for_each_pair_piece(const PairReader& reader, Visit&& visit) {
  const auto room = std::make_unique_for_overwrite<PairReader::Room>();
  for (uint64_t first = 0; first < reader.values(); first += kPieceValues) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(kPieceValues, reader.values() - first));
    const PairPiece piece = reader.read(first, count, *room);
    visit(first, piece, [&piece](size_t i) {
      return piece.distance != nullptr ? piece.distance[i] : std::fabs(piece.b[i] - piece.a[i]);
    });
  }
}

HeatMap empty_heat(const TensorView& view) {
  HeatMap heat;
  const uint64_t elements = element_count(view);
  if (elements == 0) return heat;
  if (view.ndim() > 1) {
    heat.columns = static_cast<uint64_t>(view.shape.back());
  } else if (elements <= kMostHeatCells) {
    heat.columns = elements;
  } else {
    heat.columns = static_cast<uint64_t>(std::ceil(std::sqrt(static_cast<double>(elements))));
  }
  const auto up = [](uint64_t x, uint64_t y) { return (x + y - 1) / y; };
  heat.rows = up(elements, heat.columns);
  heat.row_step = up(heat.rows, kMostHeatCells);
  heat.column_step = up(heat.columns, kMostHeatCells);
  heat.cells_down = up(heat.rows, heat.row_step);
  heat.cells_right = up(heat.columns, heat.column_step);
  heat.cells.resize(heat.cells_down * heat.cells_right);
  return heat;
}

// Goes from element to element with the cell that it belongs to, without dividing for each.
class HeatWalk {
 public:
  explicit HeatWalk(HeatMap& heat) : heat_(heat), left_in_cell_(heat.column_step), left_in_row_(heat.columns) {}

  void add(double error) {
    // Infinity is for mismatches alone.
    const double most = std::isinf(error) ? error : std::numeric_limits<float>::max();
    float& cell = heat_.cells[cell_];
    cell = std::max(cell, static_cast<float>(std::min(error, most)));
  }

  void next_element() {
    if (--left_in_row_ == 0) {
      left_in_row_ = heat_.columns;
      left_in_cell_ = heat_.column_step;
      ++row_;
      cell_ = row_ / heat_.row_step * heat_.cells_right;
    } else if (--left_in_cell_ == 0) {
      left_in_cell_ = heat_.column_step;
      ++cell_;
    }
  }

 private:
  HeatMap& heat_;
  uint64_t cell_ = 0;
  uint64_t row_ = 0;
  uint64_t left_in_cell_;
  uint64_t left_in_row_;
};

// The worst pairs seen so far. On top of the heap lies the one to give up next: the least bad, and of equals the last.
class WorstList {
 public:
  explicit WorstList(size_t limit) : limit_(limit) {}

  void add(uint64_t value, double badness) {
    if (limit_ == 0 || badness == 0 || (heap_.size() == limit_ && badness <= heap_.front().badness)) return;
    if (heap_.size() == limit_) {
      std::ranges::pop_heap(heap_, worse);
      heap_.pop_back();
    }
    heap_.push_back({badness, value});
    std::ranges::push_heap(heap_, worse);
  }

  std::vector<WorstPair> finish(const PairReader& reader) {
    std::ranges::sort_heap(heap_, worse);
    std::vector<WorstPair> result;
    for (const Candidate& candidate : heap_) result.push_back(reader.at(candidate.value));
    return result;
  }

 private:
  struct Candidate {
    double badness;
    uint64_t value;
  };
  static bool worse(const Candidate& x, const Candidate& y) {
    return x.badness != y.badness ? x.badness > y.badness : x.value < y.value;
  }

  size_t limit_;
  std::vector<Candidate> heap_;
};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

PairHistogram histogram_of(const PairReader& reader, const Range& range, size_t bins) {
  PairHistogram result;
  if (range.low > range.high || bins == 0) return result;
  result.low = range.low;
  result.high = range.high;
  if (range.low == range.high) bins = 1;
  result.a.resize(bins);
  result.b.resize(bins);
  // Halved where the distance itself is beyond the largest double.
  const double unit = std::isfinite(range.high - range.low) ? 1 : 0.5;
  const double low = range.low * unit;
  const double span = range.high * unit - low;
  const auto count = [&](double value, std::vector<uint64_t>& counts) {
    if (!std::isfinite(value)) return;
    // A share first: the number of bins for each unit may be infinite.
    const double place = span == 0 ? 0 : (value * unit - low) / span * static_cast<double>(bins);
    ++counts[std::min(static_cast<size_t>(place), bins - 1)];
  };
  for_each_pair_piece(reader, [&](uint64_t, const PairPiece& piece, auto) {
    for (size_t i = 0; i < piece.count; ++i) {
      count(piece.a[i], result.a);
      count(piece.b[i], result.b);
    }
  });
  return result;
}

}  // namespace

PairDetail detail_of(const TensorView& a, const TensorView& b, const MeasureOptions& options, size_t bins,
                     size_t worst) {
  const DefaultFloatMode mode;
  const PairReader reader(a, b, pair_kernels());
  const Tolerance tolerance = reader.both_integer() ? Tolerance{} : options.tolerance;
  PairDetail detail;
  detail.heat = empty_heat(a);
  HeatWalk heat(detail.heat);
  WorstList list(worst);
  Range range;
  for_each_pair_piece(reader, [&](uint64_t first, const PairPiece& piece, auto distance) {
    for (size_t i = 0; i < piece.count; ++i) {
      const double x = piece.a[i];
      const double y = piece.b[i];
      range.add(x);
      range.add(y);
      double error = 0;
      if (std::isfinite(x) && std::isfinite(y)) {
        // An error too large for a double is still not a mismatch.
        error = std::min(distance(i), std::numeric_limits<double>::max());
      } else if (mismatched(x, y, tolerance)) {
        error = std::numeric_limits<double>::infinity();
      }
      list.add(first + i, error);
      heat.add(error);
      if ((first + i + 1) % reader.parts() == 0) heat.next_element();
    }
  });
  detail.worst = list.finish(reader);
  detail.histogram = histogram_of(reader, range, bins);
  MeasureOptions for_axes = options;
  for_axes.axes = true;
  detail.axes = measure(a, b, for_axes).axes;
  return detail;
}

}  // namespace ttap
