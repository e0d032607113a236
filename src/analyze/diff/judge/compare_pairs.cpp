#include "analyze/diff/judge/compare_pairs.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <vector>

namespace ttap {
namespace {

// Larger pairs are split among the threads; smaller ones are handed out whole.
constexpr uint64_t kSplitBytes = 16 << 20;

// Progress, counted from several threads and told from one at a time.
class Counter {
 public:
  Counter(const std::function<void(uint64_t, uint64_t)>& progress, uint64_t total)
      : progress_(progress), total_(total) {}
  void add(uint64_t bytes) {
    done_ += bytes;
    if (!progress_) return;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock) progress_(done_, total_);
  }

 private:
  const std::function<void(uint64_t, uint64_t)>& progress_;
  uint64_t total_;
  std::atomic<uint64_t> done_ = 0;
  std::mutex mutex_;
};

struct BitsOfPair {
  Hash128 a, b;
  bool operator==(const BitsOfPair&) const = default;
};
struct HashOfPair {
  size_t operator()(const BitsOfPair& bits) const { return bits.a.low ^ (bits.b.low * 31); }
};

class Comparing {
 public:
  Comparing(const PairContext& context, std::span<TensorDiff> tensors, unsigned threads,
            const std::function<void(uint64_t, uint64_t)>& progress)
      : context_(context), tensors_(tensors), threads_(threads), bytes_(bytes()), counter_(progress, total()) {}

  void run() {
    find_twins();
    std::vector<std::jthread> crew;
    try {
      for (unsigned i = 1; i < threads_ && i * kBatch < tensors_.size(); ++i)
        crew.emplace_back([this] { compare_small(); });
    } catch (const std::system_error&) {
      // Those that run will do.
    }
    compare_small();
    crew.clear();
    for (size_t i = 0; i < tensors_.size(); ++i)
      if (is_large(i) && twins_[i] == i) compare(i, threads_);
    for (size_t i = 0; i < tensors_.size(); ++i)
      if (twins_[i] != i) take_over(i);
  }

 private:
  static constexpr size_t kBatch = 64;  // most pairs are settled by their hashes

  bool paired(size_t i) const { return tensors_[i].match.a != kNoTensor && tensors_[i].match.b != kNoTensor; }
  bool is_large(size_t i) const { return bytes_[i] >= kSplitBytes; }
  std::vector<uint64_t> bytes() const {
    std::vector<uint64_t> bytes(tensors_.size());
    for (size_t i = 0; i < tensors_.size(); ++i)
      if (paired(i)) bytes[i] = context_.a.tensor(tensors_[i].match.a).byte_count;
    return bytes;
  }
  uint64_t total() const { return std::accumulate(bytes_.begin(), bytes_.end(), uint64_t{0}); }

  // For every pair the first one with the same bits on both sides, which may be itself.
  void find_twins() {
    twins_.resize(tensors_.size());
    std::unordered_map<BitsOfPair, size_t, HashOfPair> first;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      twins_[i] = i;
      // Noise is each tensor's own, and of a value that is made of tensors these bits say little.
      if (!paired(i) || context_.noise != nullptr || tensors_[i].match.is_made()) continue;
      const TensorRecord a = context_.a.tensor(tensors_[i].match.a), b = context_.b.tensor(tensors_[i].match.b);
      if (!a.has_fingerprint || !b.has_fingerprint || !a.has_bytes || !b.has_bytes) continue;
      if (a.fingerprint.hash == b.fingerprint.hash) continue;
      const size_t twin = first.try_emplace({a.fingerprint.hash, b.fingerprint.hash}, i).first->second;
      const TensorRecord twin_a = context_.a.tensor(tensors_[twin].match.a);
      const TensorRecord twin_b = context_.b.tensor(tensors_[twin].match.b);
      const bool alike = a.dtype == twin_a.dtype && b.dtype == twin_b.dtype && a.true_dtype == twin_a.true_dtype &&
                         b.true_dtype == twin_b.true_dtype && std::ranges::equal(a.shape, twin_a.shape) &&
                         std::ranges::equal(b.shape, twin_b.shape);
      if (alike && tensors_[i].match.by == tensors_[twin].match.by) twins_[i] = twin;
    }
  }

  void compare_small() {
    for (size_t first; (first = next_.fetch_add(kBatch)) < tensors_.size();)
      for (size_t i = first; i < std::min(first + kBatch, tensors_.size()); ++i)
        if (!is_large(i) && twins_[i] == i) compare(i, 1);
  }

  void compare(size_t i, unsigned threads) {
    compare_pair(context_, tensors_[i], threads);
    counter_.add(bytes_[i]);
  }

  // What was found of its twin, when it is judged alike.
  void take_over(size_t i) {
    const TensorDiff& twin = tensors_[twins_[i]];
    TensorDiff& tensor = tensors_[i];
    if (twin.judge == nullptr || twin.measures == nullptr || !twin.ranks.empty()) return compare(i, threads_);
    const TensorRecord a = context_.a.tensor(tensor.match.a), b = context_.b.tensor(tensor.match.b);
    const auto quant = quant_tolerance_of(a, b, &a.fingerprint.stats, &b.fingerprint.stats);
    Judge judge = context_.tolerances.judge(to_string(a.key()), context_.judged_by(tensor.match), rms_of(a), nullptr,
                                            quant ? &*quant : nullptr);
    if (!same_rule(judge, *twin.judge)) return compare(i, threads_);
    tensor.verdict = twin.verdict;
    tensor.evidence = twin.evidence;
    tensor.note = twin.note;
    tensor.axes = twin.axes;
    tensor.measures = std::make_unique<Measures>(*twin.measures);
    tensor.judge = std::make_unique<Judge>(std::move(judge));
    counter_.add(bytes_[i]);
  }

  static bool same_rule(const Judge& x, const Judge& y) {
    const auto text = [](const Judge& judge) { return judge.predicate ? judge.predicate->text() : std::string(); };
    return x.tolerance.rtol == y.tolerance.rtol && x.tolerance.atol == y.tolerance.atol &&
           x.most_relative == y.most_relative && text(x) == text(y);
  }

  const PairContext& context_;
  std::span<TensorDiff> tensors_;
  unsigned threads_;
  std::vector<uint64_t> bytes_;  // of each pair
  Counter counter_;
  std::vector<size_t> twins_;
  std::atomic<size_t> next_ = 0;
};

}  // namespace

void compare_pairs(const PairContext& context, std::span<TensorDiff> tensors, unsigned threads,
                   const std::function<void(uint64_t, uint64_t)>& progress) {
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  threads = threads == 0 ? cores : std::min(threads, 4 * cores);
  Comparing(context, tensors, threads, progress).run();
}

}  // namespace ttap
