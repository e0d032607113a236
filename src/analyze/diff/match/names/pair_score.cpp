#include "analyze/diff/match/names/pair_score.h"

#include <algorithm>

namespace ttap {
namespace {

constexpr size_t kMostPatternPairs = size_t{1} << 20;
constexpr float kNotCompared = -1;  // no tensor of the one pattern can be one of the other

constexpr double kSqueezed = 0.9;  // of the same shape but for dimensions of size 1
constexpr double kMerged = 0.85;   // as many rows of the same width: batch and sequence are one axis
constexpr double kReshaped = 0.6;  // only as many elements
constexpr double kOtherKind = 0.85;
constexpr double kOtherPath = 0.85;
constexpr double kHandedOn = 0.3;     // a call that computes against one that hands on what it was given
constexpr double kOtherDepth = 0.7;   // a call with others inside against one without
constexpr double kOtherValues = 0.5;  // floats against integers

constexpr double kNamesakeElsewhere = 0.4;  // taken off where the layer of this number is another one

constexpr uint32_t kLeastVotes = 3;
constexpr double kLeastShare = 0.6;

}  // namespace

PairScore::PairScore(const LeftoverPair& left) : columns_(left.b.patterns.size()) {
  if (left.a.patterns.size() > kMostPatternPairs / std::max<size_t>(columns_, 1)) return;
  likeness_.assign(left.a.patterns.size() * columns_, kNotCompared);
  std::vector<NameWords> words_a, words_b;
  for (const std::string& pattern : left.a.patterns) words_a.emplace_back(pattern);
  for (const std::string& pattern : left.b.patterns) words_b.emplace_back(pattern);

  // Which patterns occur with a signature, each once.
  std::unordered_map<uint64_t, std::pair<std::vector<uint32_t>, std::vector<uint32_t>>> by_signature;
  for (const Traits& traits : left.a.traits) by_signature[traits.signature].first.push_back(traits.pattern);
  for (const Traits& traits : left.b.traits) by_signature[traits.signature].second.push_back(traits.pattern);
  for (auto& [signature, patterns] : by_signature) {
    for (auto* side : {&patterns.first, &patterns.second}) {
      std::ranges::sort(*side);
      side->erase(std::unique(side->begin(), side->end()), side->end());
    }
    for (const uint32_t a : patterns.first)
      for (const uint32_t b : patterns.second) {
        float& value = likeness_[a * columns_ + b];
        if (value == kNotCompared) value = static_cast<float>(likeness(words_a[a], words_b[b]));
      }
  }
  find_best();
}

void PairScore::find_best() {
  best_a_.assign(columns_ == 0 ? 0 : likeness_.size() / columns_, 0);
  best_b_.assign(columns_, 0);
  for (size_t a = 0; a < best_a_.size(); ++a)
    for (size_t b = 0; b < columns_; ++b) {
      const float value = likeness_[a * columns_ + b];
      best_a_[a] = std::max(best_a_[a], value);
      best_b_[b] = std::max(best_b_[b], value);
    }
}

double PairScore::fit(const Traits& a, const Traits& b) {
  if (a.signature != b.signature || a.value != b.value) return 0;
  // Another call of something that is matched is a call of that, and of nothing else.
  if ((a.partner != 0 || b.partner != 0) && !is_bound(a, b)) return 0;
  double fit = 1;
  if (a.shape != b.shape) fit = a.squeezed == b.squeezed ? kSqueezed : a.width == b.width ? kMerged : kReshaped;
  if (a.kind != b.kind && a.kind != 0 && b.kind != 0) fit *= kOtherKind;
  if (a.path != b.path) fit *= kOtherPath;
  if (a.inner != b.inner) fit *= kOtherDepth;
  if (a.hands_on != b.hands_on) fit *= kHandedOn;
  if (a.values != b.values) fit *= kOtherValues;
  return fit;
}

bool PairScore::is_bound(const Traits& a, const Traits& b) {
  return a.partner != 0 && a.partner == b.name && b.partner == a.name && a.call == b.call;
}

double PairScore::name(const Traits& a, const Traits& b) const {
  if (is_bound(a, b)) return 1;
  return likeness_.empty() ? 0 : std::max(likeness_[a.pattern * columns_ + b.pattern], 0.0F);
}

double PairScore::contrast(const Traits& a, const Traits& b) const {
  if (likeness_.empty() || is_bound(a, b)) return 0;
  return likeness_[a.pattern * columns_ + b.pattern] - std::max(best_a_[a.pattern], best_b_[b.pattern]);
}

double PairScore::numbers(const Traits& a, const Traits& b) {
  return likeness(a.numbers, b.numbers) * (a.call == b.call ? 1 : 0.5);
}

// The contrast weighs as much as all the rest: k and v have the same shape and stand side by side, and only their names
// keep the one from being taken for the other.
double PairScore::score(const Traits& a, const Traits& b) const {
  const double fits = fit(a, b);
  if (fits == 0) return 0;
  const double same_number = numbers(a, b);
  const double elsewhere = same_number == 0 && (a.has_namesake || b.has_namesake) ? kNamesakeElsewhere : 0;
  return fits * (0.25 + 0.45 * name(a, b) + 0.2 * same_number) + contrast(a, b) - elsewhere;
}

bool PairScore::learn(std::span<const std::pair<const Traits*, const Traits*>> pairs) {
  if (likeness_.empty()) return false;
  std::unordered_map<size_t, uint32_t> votes;
  std::vector<uint32_t> of_a(best_a_.size()), of_b(best_b_.size());
  for (const auto& [a, b] : pairs) {
    ++votes[a->pattern * columns_ + b->pattern];
    ++of_a[a->pattern];
    ++of_b[b->pattern];
  }
  bool learned = false;
  for (const auto& [at, count] : votes) {
    const double share = static_cast<double>(count) / std::max(of_a[at / columns_], of_b[at % columns_]);
    const auto value = static_cast<float>(0.5 + 0.5 * share);
    if (count < kLeastVotes || share < kLeastShare || value <= likeness_[at]) continue;
    likeness_[at] = value;
    learned = true;
  }
  if (learned) find_best();
  return learned;
}

}  // namespace ttap
