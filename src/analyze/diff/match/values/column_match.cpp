#include "analyze/diff/match/values/column_match.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "analyze/compare/tolerance.h"
#include "core/element.h"
#include "core/mix64.h"

namespace ttap {
namespace {

constexpr uint64_t kMostColumnElements = uint64_t{1} << 24;         // of a tensor whose columns are looked at
constexpr uint64_t kMostColumnElementsInAll = uint64_t{1} << 28;    // of all of them
constexpr uint64_t kFewestRows = 4;                                 // by which a column is known
constexpr double kColumnNearTimes = 50, kMostColumnDistance = 0.1;  // as is_near() (value_likeness.h)
constexpr double kLeastColumnsFound = 0.75;                         // of its columns, at least
constexpr uint32_t kMostResultsBetween = 8;                         // results between a part and the others

// A tensor as a matrix: its last axis, and all the others as one.
struct ColumnMatrix {
  uint32_t tensor = kNoTensor;
  uint32_t order = 0;  // among the results of its side
  uint64_t rows = 0;
  uint32_t width = 0;
  double tolerance = 0;             // for a column as a whole
  std::vector<double> values = {};  // column by column
  std::vector<double> sums = {};    // per column, of its values with signs drawn by row
  std::vector<double> sizes = {};   // per column
};

std::optional<ColumnMatrix> read_matrix(const Side& side, uint32_t tensor) {
  const TensorRecord record = side.tensor(tensor);
  ColumnMatrix matrix{.tensor = tensor, .width = static_cast<uint32_t>(record.shape.back())};
  const uint64_t count = element_count({.shape = record.shape});
  matrix.rows = matrix.width == 0 ? 0 : count / matrix.width;
  if (matrix.rows < kFewestRows || count > kMostColumnElements) return std::nullopt;
  const auto bytes = side.read(tensor);
  if (!bytes.ok() || !is_contiguous(bytes->view) || bytes->view.dtype == DType::kF4E2M1FNx2) return std::nullopt;
  matrix.tolerance = std::min(kColumnNearTimes * default_tolerance(dtype_of(record)).relative, kMostColumnDistance);
  matrix.values.resize(count);
  matrix.sums.resize(matrix.width);
  matrix.sizes.resize(matrix.width);
  const auto* data = static_cast<const std::byte*>(bytes->view.data);
  for (uint64_t row = 0; row < matrix.rows; ++row) {
    const double sign = (mix64(row) & 1) != 0 ? 1 : -1;
    for (uint32_t column = 0; column < matrix.width; ++column) {
      const double value =
          value_of(bytes->view.dtype, data + (row * matrix.width + column) * size_of(bytes->view.dtype));
      matrix.values[column * matrix.rows + row] = value;
      matrix.sums[column] += sign * value;
      matrix.sizes[column] += value * value;
    }
  }
  for (double& size : matrix.sizes) size = std::sqrt(size);
  return matrix;
}

double column_distance(const ColumnMatrix& x, uint32_t column, const ColumnMatrix& y, uint32_t other) {
  double sum = 0;
  for (uint64_t row = 0; row < x.rows; ++row) {
    const double difference = x.values[column * x.rows + row] - y.values[other * y.rows + row];
    sum += difference * difference;
  }
  return std::sqrt(sum) / std::max(y.sizes[other], 1e-30);
}

// A wide matrix whose columns are looked for.
struct WideMatrix {
  const ColumnMatrix& matrix;
  std::vector<uint32_t> by_sum = {};  // its columns
  std::vector<bool> taken = {};

  explicit WideMatrix(const ColumnMatrix& of) : matrix(of), by_sum(of.width), taken(of.width) {
    for (uint32_t i = 0; i < of.width; ++i) by_sum[i] = i;
    std::ranges::sort(by_sum, {}, [&](uint32_t column) { return of.sums[column]; });
  }

  // The column that is that of `narrow`; kNoTensor when none is.
  uint32_t find(const ColumnMatrix& narrow, uint32_t column) const {
    const double tolerance = std::max(matrix.tolerance, narrow.tolerance);
    // With signs drawn at random the sum of an error is rarely more than four times its size.
    const double reach = 4 * tolerance * narrow.sizes[column];
    auto at =
        std::ranges::lower_bound(by_sum, narrow.sums[column] - reach, {}, [&](uint32_t c) { return matrix.sums[c]; });
    uint32_t best = kNoTensor;
    double least = tolerance;
    for (; at != by_sum.end() && matrix.sums[*at] <= narrow.sums[column] + reach; ++at)
      if (!taken[*at])
        if (const double far = column_distance(narrow, column, matrix, *at); far <= least) best = *at, least = far;
    return best;
  }
};

class ColumnMatcher {
 public:
  // `join(wide, narrow, columns)` is called for every part.
  template <class Join>
  static void match(const std::vector<ColumnMatrix>& wides, const std::vector<ColumnMatrix>& narrows, Join&& join) {
    std::vector<bool> used(narrows.size());
    for (const ColumnMatrix& matrix : wides) {
      WideMatrix wide(matrix);
      std::vector<uint32_t> parts;  // positions among narrows
      uint32_t left = matrix.width;
      for (uint32_t i = 0; i < narrows.size(); ++i) {
        if (used[i] || narrows[i].rows != matrix.rows || narrows[i].width >= matrix.width) continue;
        auto columns = columns_of(wide, narrows[i]);
        if (columns.empty()) continue;
        for (const uint32_t column : columns) wide.taken[column] = true;
        left -= narrows[i].width;
        used[i] = true;
        parts.push_back(i);
        join(matrix, narrows[i], std::move(columns));
      }
      if (parts.empty() || left == 0) continue;
      // What is left of it is the one that has this width, next to the others.
      uint32_t rest = kNoTensor;
      for (uint32_t i = 0; i < narrows.size(); ++i) {
        if (used[i] || narrows[i].rows != matrix.rows || narrows[i].width != left) continue;
        if (narrows[i].order + kMostResultsBetween < narrows[parts.front()].order ||
            narrows[i].order > narrows[parts.back()].order + kMostResultsBetween)
          continue;
        const auto away = [&](uint32_t k) {
          const int64_t order = narrows[k].order;
          return std::min(std::abs(order - int64_t{narrows[parts.front()].order}),
                          std::abs(order - int64_t{narrows[parts.back()].order}));
        };
        if (rest == kNoTensor || away(i) < away(rest)) rest = i;
      }
      if (rest == kNoTensor) continue;
      std::vector<uint32_t> columns;
      for (uint32_t column = 0; column < matrix.width; ++column)
        if (!wide.taken[column]) columns.push_back(column);
      used[rest] = true;
      join(matrix, narrows[rest], std::move(columns));
    }
  }

 private:
  // Empty where the narrow one is no part of the wide one.
  static std::vector<uint32_t> columns_of(const WideMatrix& wide, const ColumnMatrix& narrow) {
    WideMatrix rest = wide;
    std::vector<uint32_t> columns(narrow.width, kNoTensor);
    uint32_t missing = 0;
    for (uint32_t i = 0; i < narrow.width; ++i) {
      columns[i] = rest.find(narrow, i);
      if (columns[i] == kNoTensor) {
        if (++missing > (1 - kLeastColumnsFound) * narrow.width) return {};
      } else {
        rest.taken[columns[i]] = true;
      }
    }
    // A column that differs lies beside its neighbour.
    for (uint32_t i = 0; i < narrow.width; ++i) {
      if (columns[i] != kNoTensor) continue;
      const auto take = [&](uint64_t column) {
        if (column >= rest.taken.size() || rest.taken[column]) return false;
        columns[i] = static_cast<uint32_t>(column);
        rest.taken[column] = true;
        return true;
      };
      if (i > 0 && take(uint64_t{columns[i - 1]} + 1)) continue;
      if (i + 1 < narrow.width && columns[i + 1] != kNoTensor && columns[i + 1] > 0 &&
          take(uint64_t{columns[i + 1]} - 1))
        continue;
      return {};
    }
    return columns;
  }
};

}  // namespace

void match_columns(const Side& a, std::span<const uint32_t> values_a, const Side& b, std::span<const uint32_t> values_b,
                   Pairing& pairing) {
  // Only where the other side has as many rows in another width.
  const auto rows_of = [](const Side& side, uint32_t tensor) {
    const TensorRecord record = side.tensor(tensor);
    const auto width = static_cast<uint64_t>(record.shape.back());
    return width == 0 ? 0 : element_count({.shape = record.shape}) / width;
  };
  const auto matrices_of = [&](const Side& side, std::span<const uint32_t> values, const Side& other,
                               std::span<const uint32_t> others) {
    std::map<uint64_t, std::vector<int64_t>> widths;
    for (const uint32_t value : others) widths[rows_of(other, value)].push_back(other.tensor(value).shape.back());
    std::vector<ColumnMatrix> matrices;
    uint64_t elements = 0;
    for (uint32_t order = 0; order < values.size(); ++order) {
      const auto found = widths.find(rows_of(side, values[order]));
      if (found == widths.end()) continue;
      const int64_t width = side.tensor(values[order]).shape.back();
      if (std::ranges::all_of(found->second, [&](int64_t each) { return each == width; })) continue;
      auto matrix = read_matrix(side, values[order]);
      if (!matrix || elements + matrix->values.size() > kMostColumnElementsInAll) continue;
      elements += matrix->values.size();
      matrix->order = order;
      matrices.push_back(std::move(*matrix));
    }
    return matrices;
  };
  const std::vector<ColumnMatrix> matrices_a = matrices_of(a, values_a, b, values_b);
  const std::vector<ColumnMatrix> matrices_b = matrices_of(b, values_b, a, values_a);
  const auto join = [&](uint32_t x, uint32_t y, const std::vector<uint32_t>& columns, bool of_a) {
    auto made = std::make_shared<const MadeValue>(
        MadeValue{{{of_a ? x : y, {{.axis = -1, .numbers = {columns.begin(), columns.end()}}}}}});
    Match match{.a = x, .b = y, .by = MatchedBy::kValues};
    (of_a ? match.made_a : match.made_b) = std::move(made);
    pairing.join_part(std::move(match));
  };
  using Matrix = const ColumnMatrix&;
  ColumnMatcher::match(matrices_a, matrices_b, [&](Matrix wide, Matrix narrow, const auto& columns) {
    join(wide.tensor, narrow.tensor, columns, true);
  });
  ColumnMatcher::match(matrices_b, matrices_a, [&](Matrix wide, Matrix narrow, const auto& columns) {
    if (!pairing.has_b(wide.tensor) || pairing.of_a(pairing.a_of(wide.tensor)).made_b)
      if (!pairing.has_a(narrow.tensor)) join(narrow.tensor, wide.tensor, columns, false);
  });
}

}  // namespace ttap
