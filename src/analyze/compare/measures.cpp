#include "analyze/compare/measures.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>

#include "analyze/compare/axis_errors.h"
#include "analyze/compare/pair_reader.h"
#include "analyze/compare/ulp_percentile.h"
#include "analyze/values/in_order.h"
#include "fingerprint/fingerprinter.h"

namespace ttap {
namespace {

// What is summed up on its own. Where chunks begin depends on the shape alone.
constexpr uint64_t kChunkValues = uint64_t{1} << 21;

// A percentile takes no more passes than this, unless somebody writes to the data meanwhile.
constexpr int kMostPasses = 8;

// The piece that holds the worst pair; where in it is looked up at the end.
struct WorstPiece {
  bool mismatch = false;
  double max_abs = 0;
  uint64_t first = 0;
  size_t count = 0;

  // Pieces come in order: of equals the first stays.
  void consider(const WorstPiece& other) {
    if (mismatch || (!other.mismatch && !(other.max_abs > max_abs))) return;
    *this = other;
  }
};

void add(PairSums& to, const PairSums& from) {
  to.nonfinite += from.nonfinite;
  to.unequal += from.unequal;
  to.outside += from.outside;
  to.nan_mismatches += from.nan_mismatches;
  to.inf_mismatches += from.inf_mismatches;
  to.abs += from.abs;
  to.sq += from.sq;
  to.aa += from.aa;
  to.bb += from.bb;
  to.ab += from.ab;
  to.max_abs = std::max(to.max_abs, from.max_abs);
  to.max_rel = std::max(to.max_rel, from.max_rel);
  to.nonzero_a = to.nonzero_a || from.nonzero_a;
  to.max_ulp = std::max(to.max_ulp, from.max_ulp);
}

struct Worker {
  explicit Worker(const AxisPlan& plan) : axes(plan) {}

  std::unique_ptr<PairReader::Room> room = std::make_unique_for_overwrite<PairReader::Room>();
  PairSums sums = {};  // of a chunk, as what follows
  AxisErrors axes;
  WorstPiece worst = {};
  UlpCounts ulps = {};  // of all its chunks: counts add up in any order
};

class Measuring {
 public:
  Measuring(const TensorView& a, const TensorView& b, const MeasureOptions& options)
      : kernels_(pair_kernels()),
        reader_(a, b, kernels_),
        plan_(a.shape, reader_.parts(), options.axes),
        chunk_blocks_(std::max<uint64_t>(1, kChunkValues / plan_.block())),
        chunks_((plan_.blocks() + chunk_blocks_ - 1) / chunk_blocks_),
        axes_(plan_) {
    // Integers are equal or they are not.
    if (!reader_.both_integer()) rules_.tolerance = options.tolerance;
    rules_.ulp = reader_.both_float() && reader_.values() != 0;
    if (rules_.ulp) {
      rules_.scale = ulp_scale(coarser(a.dtype, b.dtype));
      rules_.words = word_format(a.dtype, b.dtype);
      rules_.window = guess_window(reader_, rules_.scale);
    }
    uint64_t threads = options.threads != 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
    threads = std::clamp<uint64_t>(threads, 1, std::max<uint64_t>(1, chunks_));
    for (uint64_t i = 0; i < threads; ++i) workers_.emplace_back(plan_);
  }

  Measures measure() {
    start_ulps();
    work_in_order(
        chunks_, workers_, [&](Worker& worker, uint64_t chunk) { compare(worker, chunk); },
        [&](Worker& worker, uint64_t) { take(worker); });
    Measures result = summary();
    if (reader_.values() != 0) result.worst = find_worst();
    if (rules_.ulp && result.finite != 0) {
      result.max_ulp = sums_.max_ulp;
      result.p99_ulp = percentile(percentile_rank(result.finite));
    }
    result.axes = axes_.finish(sums_);
    return result;
  }

 private:
  void compare(Worker& worker, uint64_t chunk) {
    const DefaultFloatMode mode;
    const uint64_t first = chunk * chunk_blocks_;
    worker.sums = {};
    worker.worst = {};
    worker.axes.clear();
    worker.axes.walk(
        first, std::min(chunk_blocks_, plan_.blocks() - first),
        [&](uint64_t value, size_t count, const PositionErrors& positions) {
          const PairPiece piece = reader_.read(value, count, *worker.room);
          const PairSums sums = kernels_.compare(piece, rules_, worker.sums.max_rel, positions, worker.ulps);
          worker.worst.consider({sums.nan_mismatches + sums.inf_mismatches != 0, sums.max_abs, value, count});
          add(worker.sums, sums);
          return sums;
        });
  }

  void take(const Worker& worker) {
    add(sums_, worker.sums);
    axes_.merge(worker.axes);
    worst_.consider(worker.worst);
  }

  Measures summary() const {
    Measures m;
    m.count = reader_.values();
    m.finite = m.count - sums_.nonfinite;
    m.unequal = sums_.unequal;
    m.outside = sums_.outside;
    m.nan_mismatches = sums_.nan_mismatches;
    m.inf_mismatches = sums_.inf_mismatches;
    if (m.finite == 0) return m;
    const auto n = static_cast<double>(m.finite);
    m.max_abs = sums_.max_abs;
    m.mean_abs = sums_.abs / n;
    if (sums_.nonzero_a) m.max_rel = sums_.max_rel;
    m.rmse = std::sqrt(sums_.sq / n);
    m.rms_a = std::sqrt(sums_.aa / n);
    m.rms_b = std::sqrt(sums_.bb / n);
    m.sqnr_db = sums_.sq == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(sums_.aa / sums_.sq);
    if (sums_.aa == 0 || sums_.bb == 0) {
      m.cosine = sums_.aa == sums_.bb ? 1 : 0;
    } else {
      // The square root of a square need not be the number itself.
      const double lengths = sums_.aa == sums_.bb ? sums_.aa : std::sqrt(sums_.aa) * std::sqrt(sums_.bb);
      m.cosine = std::clamp(sums_.ab / lengths, -1.0, 1.0);
    }
    return m;
  }

  std::optional<WorstPair> find_worst() {
    if (worst_.count == 0) return std::nullopt;
    const PairPiece piece = reader_.read(worst_.first, worst_.count, *workers_.front().room);
    for (size_t i = 0; i < piece.count; ++i) {
      const double a = piece.a[i];
      const double b = piece.b[i];
      const bool finite = std::isfinite(a) && std::isfinite(b);
      const double distance = piece.distance != nullptr ? piece.distance[i] : std::fabs(b - a);
      if (worst_.mismatch ? !finite && !is_close(b, a, rules_.tolerance) : finite && distance == worst_.max_abs)
        return reader_.at(worst_.first + i);
    }
    return std::nullopt;
  }

  void start_ulps() {
    if (!rules_.ulp) return;
    for (Worker& worker : workers_) worker.ulps = {.bins = std::vector<uint64_t>(rules_.window.bins())};
  }

  uint64_t percentile(uint64_t rank) {
    for (int pass = 0; pass < kMostPasses; ++pass) {
      UlpCounts& all = workers_.front().ulps;
      for (size_t i = 1; i < workers_.size(); ++i) ttap::add(all, workers_[i].ulps);
      const auto found = narrow(rules_.window, all, rank, sums_.max_ulp);
      if (const auto* distance = std::get_if<uint64_t>(&found)) return *distance;
      rules_.window = std::get<UlpWindow>(found);
      start_ulps();
      work_in_order(
          chunks_, workers_, [&](Worker& worker, uint64_t chunk) { count_ulps(worker, chunk); },
          [](Worker&, uint64_t) {});
    }
    return rules_.window.low;
  }

  void count_ulps(Worker& worker, uint64_t chunk) {
    const DefaultFloatMode mode;
    const uint64_t size = chunk_blocks_ * plan_.block();
    const uint64_t first = chunk * size;
    const uint64_t end = std::min(first + size, reader_.values());
    for (uint64_t value = first; value < end; value += kPieceValues) {
      const auto count = static_cast<size_t>(std::min<uint64_t>(kPieceValues, end - value));
      kernels_.count_ulps(reader_.read(value, count, *worker.room), rules_, worker.ulps);
    }
  }

  const PairKernels& kernels_;
  PairReader reader_;
  AxisPlan plan_;
  uint64_t chunk_blocks_;
  uint64_t chunks_;
  PairRules rules_ = {};
  std::vector<Worker> workers_;
  PairSums sums_ = {};
  AxisErrors axes_;
  WorstPiece worst_ = {};
};

}  // namespace

Measures measure(const TensorView& a, const TensorView& b, const MeasureOptions& options) {
  const DefaultFloatMode mode;
  return Measuring(a, b, options).measure();
}

}  // namespace ttap
