#include "analyze/diff/match/ops/op_sequence.h"

#include <algorithm>
#include <cstddef>

namespace ttap {
namespace {

constexpr size_t kMostCells = size_t{4} << 20;  // of a gap that is aligned as a whole
constexpr int64_t kMostEdits = 2048;
constexpr uint32_t kWindow = 256;

bool is_same(const OpSymbol& a, const OpSymbol& b) { return a.name == b.name && a.shape == b.shape; }

// The number of pairs counts most, so what tells equals apart is worth little beside it.
int32_t score_of(const OpSymbol& a, const OpSymbol& b) {
  if (a.name != b.name) return 0;
  const auto shared = [](uint64_t x, uint64_t y) { return x == y && x != 0; };
  return 20 + (a.shape == b.shape ? 40 : 0) + (shared(a.bits, b.bits) ? 24 : 0) + (shared(a.fed, b.fed) ? 12 : 0) +
         (a.dtype == b.dtype ? 2 : 0) + (a.overload == b.overload ? 1 : 0);
}

class Aligner {
 public:
  Aligner(std::span<const OpSymbol> a, std::span<const OpSymbol> b) : a_(a), b_(b) {}

  OpPairs run() {
    gap(0, static_cast<uint32_t>(a_.size()), 0, static_cast<uint32_t>(b_.size()));
    return std::move(pairs_);
  }

 private:
  static bool fits(size_t rows, size_t columns) { return rows == 0 || columns <= kMostCells / rows; }

  void gap(uint32_t a_begin, uint32_t a_end, uint32_t b_begin, uint32_t b_end) {
    if (fits(a_end - a_begin, b_end - b_begin)) {
      table(a_begin, a_end, b_begin, b_end, a_end, b_end);
      return;
    }
    OpPairs anchors;
    if (!few_edits(a_begin, a_end, b_begin, b_end, anchors)) return windows(a_begin, a_end, b_begin, b_end);
    // Between the members of the common subsequence nothing is the same, but some may be alike.
    for (const auto& [a, b] : anchors) {
      if (a_begin < a && b_begin < b) between(a_begin, a, b_begin, b);
      pairs_.emplace_back(a, b);
      a_begin = a + 1;
      b_begin = b + 1;
    }
    if (a_begin < a_end && b_begin < b_end) between(a_begin, a_end, b_begin, b_end);
  }

  void between(uint32_t a_begin, uint32_t a_end, uint32_t b_begin, uint32_t b_end) {
    if (fits(a_end - a_begin, b_end - b_begin)) {
      table(a_begin, a_end, b_begin, b_end, a_end, b_end);
    } else {
      windows(a_begin, a_end, b_begin, b_end);
    }
  }

  // All of a gap. What is paired before `a_stop` and `b_stop` is kept; returns where that ends.
  std::pair<uint32_t, uint32_t> table(uint32_t a_begin, uint32_t a_end, uint32_t b_begin, uint32_t b_end,
                                      uint32_t a_stop, uint32_t b_stop) {
    enum Step : uint8_t { kPair, kSkipA, kSkipB };
    const size_t rows = a_end - a_begin, columns = b_end - b_begin;
    steps_.resize(rows * columns);
    sums_.assign(columns + 1, 0);
    // sums_[j] is what the ops from i of A and from j of B can score at most. Made from the end, so that among equals
    // the walk from the front takes the early ones.
    for (size_t i = rows; i-- > 0;) {
      int64_t diagonal = 0;
      uint8_t* const row = steps_.data() + i * columns;
      const OpSymbol& one = a_[a_begin + i];
      for (size_t j = columns; j-- > 0;) {
        const int64_t below = sums_[j], right = sums_[j + 1];
        const int32_t score = score_of(one, b_[b_begin + j]);
        const int64_t paired = diagonal + score;
        diagonal = below;
        if (score > 0 && paired >= below && paired >= right) {
          row[j] = kPair;
          sums_[j] = paired;
        } else if (below >= right) {
          row[j] = kSkipA;
        } else {
          row[j] = kSkipB;
          sums_[j] = right;
        }
      }
    }
    size_t i = 0, j = 0;
    while (i < rows && j < columns && a_begin + i < a_stop && b_begin + j < b_stop) {
      const uint8_t step = steps_[i * columns + j];
      if (step == kPair) pairs_.emplace_back(static_cast<uint32_t>(a_begin + i), static_cast<uint32_t>(b_begin + j));
      i += step != kSkipB;
      j += step != kSkipA;
    }
    return {static_cast<uint32_t>(a_begin + i), static_cast<uint32_t>(b_begin + j)};
  }

  // A table over the next ops of both, of which the first half is kept; then the next one.
  void windows(uint32_t a_begin, uint32_t a_end, uint32_t b_begin, uint32_t b_end) {
    while (a_begin < a_end && b_begin < b_end) {
      const uint32_t a_far = std::min(a_end, a_begin + kWindow), b_far = std::min(b_end, b_begin + kWindow);
      const bool last = a_far == a_end && b_far == b_end;
      const auto [a_next, b_next] = table(a_begin, a_far, b_begin, b_far, last ? a_far : a_begin + kWindow / 2,
                                          last ? b_far : b_begin + kWindow / 2);
      if (last) return;
      a_begin = a_next;
      b_begin = b_next;
    }
  }

  // Myers' greedy way to the longest common subsequence, given up where more than kMostEdits ops have no counterpart.
  bool few_edits(uint32_t a_begin, uint32_t a_end, uint32_t b_begin, uint32_t b_end, OpPairs& anchors) const {
    const int64_t rows = a_end - a_begin, columns = b_end - b_begin;
    if (rows - columns > kMostEdits || columns - rows > kMostEdits) return false;
    // reach[k] is how far A is consumed on diagonal k = (consumed of A) − (consumed of B). A trail has those of every
    // number of edits, d + 1 each, for the way back.
    std::vector<int64_t> reach(2 * kMostEdits + 3, 0);
    std::vector<std::vector<uint32_t>> trail;
    const auto at = [&](int64_t k) -> int64_t& { return reach[static_cast<size_t>(k + kMostEdits + 1)]; };
    int64_t edits = -1;
    for (int64_t d = 0; d <= kMostEdits && edits < 0; ++d) {
      auto& ends = trail.emplace_back();
      ends.reserve(static_cast<size_t>(d) + 1);
      for (int64_t k = -d; k <= d; k += 2) {
        int64_t i = 0;
        if (d > 0) i = k == -d || (k != d && at(k - 1) < at(k + 1)) ? at(k + 1) : at(k - 1) + 1;
        while (i < rows && i - k < columns && i >= k && is_same(a_[a_begin + i], b_[b_begin + i - k])) ++i;
        at(k) = i;
        ends.push_back(static_cast<uint32_t>(std::min<int64_t>(i, UINT32_MAX)));
        if (i >= rows && i - k >= columns) {
          edits = d;
          break;
        }
      }
    }
    if (edits < 0) return false;
    const auto end_of = [&](int64_t d, int64_t k) {
      return static_cast<int64_t>(trail[static_cast<size_t>(d)][static_cast<size_t>((k + d) / 2)]);
    };
    int64_t i = rows, k = rows - columns;
    for (int64_t d = edits; d >= 0; --d) {
      // Where this number of edits began on the diagonal: after one more op of A, or of B.
      const bool from_b = d > 0 && (k == -d || (k != d && end_of(d - 1, k - 1) < end_of(d - 1, k + 1)));
      const int64_t begin = d == 0 ? 0 : from_b ? end_of(d - 1, k + 1) : end_of(d - 1, k - 1) + 1;
      while (i > begin) {
        --i;
        anchors.emplace_back(static_cast<uint32_t>(a_begin + i), static_cast<uint32_t>(b_begin + i - k));
      }
      if (d == 0) break;
      k += from_b ? 1 : -1;
      i = end_of(d - 1, k);
    }
    std::ranges::reverse(anchors);
    return true;
  }

  std::span<const OpSymbol> a_, b_;
  OpPairs pairs_;
  std::vector<uint8_t> steps_;
  std::vector<int64_t> sums_;
};

}  // namespace

OpPairs align_sequences(std::span<const OpSymbol> a, std::span<const OpSymbol> b) { return Aligner(a, b).run(); }

}  // namespace ttap
