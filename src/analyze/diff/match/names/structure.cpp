#include <algorithm>
#include <map>
#include <span>

#include "analyze/diff/match/names/call_neighbours.h"
#include "analyze/diff/match/names/leftovers.h"
#include "analyze/diff/match/names/pair_score.h"
#include "analyze/diff/match/pairing.h"
#include "core/mix64.h"

// Leftovers between the same matched tensors are aligned in order, as sequences are: the pairs that score most together
// win. What repeats among them is taken for a renaming, and they are aligned again. Then those are paired that changed
// places. Only what comes out sure enough is kept.
namespace ttap {
namespace {

constexpr size_t kMostCellsOfGap = size_t{16} << 20;
constexpr size_t kMostGapCells = size_t{64} << 20;
constexpr size_t kLookAhead = 16;          // how far a queue is searched where a gap has too many cells
constexpr size_t kMostBucketPairs = 4096;  // of tensors that changed places
constexpr double kLeastNameOutOfOrder = 0.5;

class StructureMatcher {
 public:
  StructureMatcher(const Side& a, const Side& b, LeftoverPair left, Pairing& pairing)
      : left_(std::move(left)), score_(left_), pairing_(pairing), calls_(a, b) {}

  void run() {
    match_gaps();
    if (learn()) match_gaps();
    match_swapped();
    keep_the_sure();
  }

 private:
  const std::vector<Traits>& a() const { return left_.a.traits; }
  const std::vector<Traits>& b() const { return left_.b.traits; }

  void take(uint32_t a_at, uint32_t b_at) {
    of_a_[a_at] = b_at;
    taken_b_[b_at] = true;
  }

  void forget() {
    of_a_.assign(a().size(), kNoTensor);
    taken_b_.assign(b().size(), false);
  }

  bool learn() {
    std::vector<std::pair<const Traits*, const Traits*>> pairs;
    for (uint32_t i = 0; i < of_a_.size(); ++i)
      if (of_a_[i] != kNoTensor) pairs.emplace_back(&a()[i], &b()[of_a_[i]]);
    return score_.learn(pairs);
  }

  void match_gaps() {
    forget();
    size_t cells_left = kMostGapCells;
    uint32_t a_begin = 0, b_begin = 0;
    while (a_begin < a().size() && b_begin < b().size()) {
      const uint32_t gap = std::max(a()[a_begin].gap, b()[b_begin].gap);
      while (a_begin < a().size() && a()[a_begin].gap < gap) ++a_begin;
      while (b_begin < b().size() && b()[b_begin].gap < gap) ++b_begin;
      uint32_t a_end = a_begin, b_end = b_begin;
      while (a_end < a().size() && a()[a_end].gap == gap) ++a_end;
      while (b_end < b().size() && b()[b_end].gap == gap) ++b_end;
      const size_t cells = size_t{a_end - a_begin} * (b_end - b_begin);
      if (cells <= std::min(kMostCellsOfGap, cells_left)) {
        cells_left -= cells;
        match_in_order(a_begin, a_end, b_begin, b_end);
      } else {
        match_queues(a_begin, a_end, b_begin, b_end);
      }
      a_begin = a_end;
      b_begin = b_end;
    }
  }

  // sums[j] is what the tensors from i of A and from j of B can score at most. Made from the end, so that among equals
  // the walk from the front takes the early ones.
  void match_in_order(uint32_t a_begin, uint32_t a_end, uint32_t b_begin, uint32_t b_end) {
    enum Step : uint8_t { kPair, kSkipA, kSkipB };
    const size_t rows = a_end - a_begin, columns = b_end - b_begin;
    std::vector<uint8_t> steps(rows * columns);
    std::vector<double> sums(columns + 1);
    for (size_t i = rows; i-- > 0;) {
      double diagonal = 0;  // sums[j + 1] of the row below
      for (size_t j = columns; j-- > 0;) {
        const double below = sums[j];
        const double score = score_.score(a()[a_begin + i], b()[b_begin + j]);
        const double paired = diagonal + score;
        diagonal = below;
        uint8_t& step = steps[i * columns + j];
        if (score > 0 && paired >= below && paired >= sums[j + 1]) {
          step = kPair;
          sums[j] = paired;
        } else if (below >= sums[j + 1]) {
          step = kSkipA;
        } else {
          step = kSkipB;
          sums[j] = sums[j + 1];
        }
      }
    }
    for (size_t i = 0, j = 0; i < rows && j < columns;) {
      const uint8_t step = steps[i * columns + j];
      if (step == kPair) take(static_cast<uint32_t>(a_begin + i), static_cast<uint32_t>(b_begin + j));
      i += step != kSkipB;
      j += step != kSkipA;
    }
  }

  // Too many for that: those of the same signature wait in a queue, and each tensor of A takes the best of the first.
  void match_queues(uint32_t a_begin, uint32_t a_end, uint32_t b_begin, uint32_t b_end) {
    struct Queue {
      std::vector<uint32_t> waiting;
      size_t front = 0;
    };
    std::unordered_map<uint64_t, Queue> queues;
    for (uint32_t j = b_begin; j < b_end; ++j) queues[b()[j].signature].waiting.push_back(j);
    for (uint32_t i = a_begin; i < a_end; ++i) {
      const auto found = queues.find(a()[i].signature);
      if (found == queues.end()) continue;
      Queue& queue = found->second;
      while (queue.front < queue.waiting.size() && taken_b_[queue.waiting[queue.front]]) ++queue.front;
      double best = 0;
      uint32_t at = kNoTensor;
      const size_t end = std::min(queue.waiting.size(), queue.front + kLookAhead);
      for (size_t k = queue.front; k < end; ++k) {
        const uint32_t j = queue.waiting[k];
        const double score = taken_b_[j] ? 0 : score_.score(a()[i], b()[j]);
        if (score > best) best = score, at = j;
      }
      if (at != kNoTensor) take(i, at);
    }
  }

  // Out of order, so the name must speak for it; the numbers and the signature must agree.
  void match_swapped() {
    std::map<uint64_t, std::pair<std::vector<uint32_t>, std::vector<uint32_t>>> buckets;
    const auto bucket_of = [](const Traits& traits) { return mix64(traits.signature + mix64(traits.numbers.last)); };
    for (uint32_t i = 0; i < a().size(); ++i)
      if (of_a_[i] == kNoTensor) buckets[bucket_of(a()[i])].first.push_back(i);
    for (uint32_t j = 0; j < b().size(); ++j)
      if (!taken_b_[j]) buckets[bucket_of(b()[j])].second.push_back(j);
    struct Candidate {
      double score;
      uint32_t a, b;
    };
    for (const auto& [key, bucket] : buckets) {
      if (bucket.first.size() * bucket.second.size() > kMostBucketPairs) continue;
      std::vector<Candidate> candidates;
      for (const uint32_t i : bucket.first)
        for (const uint32_t j : bucket.second) {
          const double score = score_.score(a()[i], b()[j]);
          if (score > 0 && score_.name(a()[i], b()[j]) >= kLeastNameOutOfOrder) candidates.push_back({score, i, j});
        }
      std::ranges::stable_sort(candidates, std::ranges::greater{}, &Candidate::score);
      for (const Candidate& candidate : candidates)
        if (of_a_[candidate.a] == kNoTensor && !taken_b_[candidate.b]) take(candidate.a, candidate.b);
    }
  }

  // How many of the two neighbours before and the two after are matched with each other as well, 0 to 1: of the
  // tensors, or of the calls that compute something and have no others inside.
  double context(uint32_t a_tensor, uint32_t b_tensor) const {
    return std::max(context_of_tensors(a_tensor, b_tensor), calls_.context(a_tensor, b_tensor));
  }
  double context_of_tensors(uint32_t a_tensor, uint32_t b_tensor) const {
    int agreeing = 0;
    for (const int64_t direction : {-1, 1})
      for (const int64_t far : {1, 2}) {
        const int64_t near_a = a_tensor + direction * far;
        const int64_t first_b = b_tensor + direction;
        if (near_a < 0 || near_a >= static_cast<int64_t>(pairing_.count_a())) {
          const int64_t near_b = b_tensor + direction * far;
          agreeing += near_b < 0 || near_b >= static_cast<int64_t>(pairing_.count_b());  // both end here
        } else if (pairing_.has_a(static_cast<size_t>(near_a))) {
          const int64_t partner = pairing_.of_a(static_cast<size_t>(near_a)).b;
          agreeing += partner == first_b || partner == first_b + direction;
        }
      }
    return agreeing / 4.0;
  }

  // How many tensors of this signature and kind of call both sides have here: 1 for as many, ½ for twice as many on
  // one. In the layer of this number, where the other side has one too.
  class Balance {
   public:
    explicit Balance(const LeftoverPair& left) {
      for (const bool numbered : {false, true}) {
        for (const Traits& traits : left.a.traits) ++counts_[key_of(traits, numbered)].first;
        for (const Traits& traits : left.b.traits) ++counts_[key_of(traits, numbered)].second;
      }
    }
    double of(const Traits& traits) const {
      const auto found = counts_.find(key_of(traits, traits.has_namesake));
      const auto [less, more] = std::minmax(found->second.first, found->second.second);
      return static_cast<double>(less) / more;
    }

   private:
    static uint64_t key_of(const Traits& traits, bool numbered) {
      const uint64_t kind = (traits.inner ? 2 : 0) + (traits.hands_on ? 1 : 0);
      return mix64(traits.signature + traits.gap + mix64(kind + (numbered ? mix64(traits.numbers.last + 1) : 0)));
    }
    std::unordered_map<uint64_t, std::pair<uint32_t, uint32_t>> counts_;
  };

  void keep_the_sure() {
    for (uint32_t i = 0; i < of_a_.size(); ++i)
      if (of_a_[i] != kNoTensor) pairing_.join(a()[i].tensor, b()[of_a_[i]].tensor, MatchedBy::kStructure);
    calls_.find_matched(pairing_);
    const Balance balance(left_);
    std::vector<float> confidence(of_a_.size());
    for (uint32_t i = 0; i < of_a_.size(); ++i) {
      if (of_a_[i] == kNoTensor) continue;
      const Traits& one = a()[i];
      const Traits& other = b()[of_a_[i]];
      const bool bound = PairScore::is_bound(one, other);
      const double balanced = bound ? 1 : std::min(balance.of(one), balance.of(other));
      const double sure = 0.2 + 0.3 * score_.name(one, other) + 0.12 * PairScore::numbers(one, other) +
                          0.18 * balanced + 0.19 * context(one.tensor, other.tensor) - 0.2 * (1 - balanced);
      confidence[i] = static_cast<float>(PairScore::fit(one, other) * sure + 0.5 * score_.contrast(one, other));
    }
    for (uint32_t i = 0; i < of_a_.size(); ++i) {
      if (of_a_[i] == kNoTensor) continue;
      pairing_.unmatch(a()[i].tensor);
      const bool same = a()[i].value != 0 && a()[i].value == b()[of_a_[i]].value;
      if (same && confidence[i] >= kLeastConfidence)
        pairing_.join(a()[i].tensor, b()[of_a_[i]].tensor, MatchedBy::kValues);
      else if (confidence[i] >= kLeastConfidence)
        pairing_.join(a()[i].tensor, b()[of_a_[i]].tensor, MatchedBy::kStructure, confidence[i]);
    }
  }

  LeftoverPair left_;
  PairScore score_;
  Pairing& pairing_;
  CallNeighbours calls_;
  std::vector<uint32_t> of_a_;  // position among B's leftovers
  std::vector<bool> taken_b_;
};

}  // namespace

void match_by_structure(const Side& a, const Side& b, const SharedValues& values, Pairing& pairing) {
  LeftoverPair left = find_leftovers(a, b, values, pairing);
  if (left.a.traits.empty()) return;
  StructureMatcher(a, b, std::move(left), pairing).run();
}

}  // namespace ttap
