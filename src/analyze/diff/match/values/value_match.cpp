#include "analyze/diff/match/values/value_match.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "analyze/compare/measures.h"
#include "analyze/compare/tolerance.h"
#include "analyze/diff/judge/compare_pair.h"
#include "analyze/diff/match/call_kinds.h"
#include "analyze/diff/match/nearest.h"
#include "analyze/diff/match/ops/value_likeness.h"
#include "analyze/diff/match/values/column_match.h"

namespace ttap {
namespace {

constexpr uint64_t kFewestOfValue = 16;                 // elements by which a value is known
constexpr size_t kMostValuePairs = size_t{1} << 20;     // of a size, that are held against each other
constexpr uint64_t kMostBytesRead = uint64_t{1} << 30;  // bytes that are read to tell values apart
// By their elements unrelated values are √2 apart, by their statistics much less.
constexpr double kNearerByElements = 4, kNearerByStatistics = 16;
constexpr double kLeastValueDistance = 1e-8;  // what is nearer is as near as this

// The tensors of one side that hold one value, by role; in execution order.
struct HeldValue {
  std::map<std::string_view, std::vector<uint32_t>> tensors = {};
  uint32_t first = kNoTensor;  // the first that is a result, else the first
};

using ValueBits = std::tuple<uint64_t, uint64_t, DType>;

// Of two values that may be one: as is_near() (value_likeness.h) says it of statistics.
double most_apart(const TensorRecord& a, const TensorRecord& b) {
  const auto rounding = [](const TensorRecord& record) { return default_tolerance(dtype_of(record)).relative; };
  return std::min(50 * std::max(rounding(a), rounding(b)), 0.1);
}

bool is_plain_float(const TensorRecord& record) {
  return dtype_info(dtype_of(record)).kind == DTypeKind::kFloat && record.group.empty();
}

// The values that free tensors of a side hold.
template <class IsFree>
std::map<ValueBits, HeldValue> held_values(const Side& side, IsFree&& is_free) {
  std::map<ValueBits, HeldValue> values;
  for (uint32_t i = 0; i < side.tensor_count(); ++i) {
    if (!is_free(i)) continue;
    const TensorRecord record = side.tensor(i);
    const Stats& stats = record.fingerprint.stats;
    if (!record.has_fingerprint || stats.count < kFewestOfValue || !(stats.min < stats.max)) continue;
    HeldValue& value = values[{record.fingerprint.hash.high, record.fingerprint.hash.low, dtype_of(record)}];
    auto& of_role = value.tensors[record.role];
    of_role.push_back(i);
    if (value.first == kNoTensor || (record.role == "out" && of_role.size() == 1)) value.first = i;
  }
  return values;
}

class ValueMatcherOfModules {
 public:
  ValueMatcherOfModules(const Side& a, const Side& b, Pairing& pairing)
      : a_(a), b_(b), kinds_a_(a), kinds_b_(b), pairing_(pairing) {
    shared_.of_a.resize(a.tensor_count());
    shared_.of_b.resize(b.tensor_count());
  }

  SharedValues run() {
    auto values_a = held_values(a_, [&](uint32_t i) { return pairing_.is_free_a(i); });
    auto values_b = held_values(b_, [&](uint32_t i) { return pairing_.is_free_b(i); });
    if (values_a.empty() || values_b.empty()) return std::move(shared_);
    for (auto at = values_a.begin(); at != values_a.end();) {
      const auto other = values_b.find(at->first);
      if (other == values_b.end()) {
        ++at;
        continue;
      }
      join(at->second, other->second);
      values_b.erase(other);
      at = values_a.erase(at);
    }
    join_transposed(values_a, values_b);
    join_near(values_a, values_b);
    match_columns(a_, free_results(values_a, a_), b_, free_results(values_b, b_), pairing_);
    return std::move(shared_);
  }

 private:
  void join(uint32_t x, uint32_t y, bool transposed) {
    pairing_.join_part(matched(x, y, transposed));
  }

  static Match matched(uint32_t x, uint32_t y, bool transposed) {
    Match match{.a = x, .b = y, .by = MatchedBy::kValues};
    if (transposed)
      match.made_b = std::make_shared<const MadeValue>(
          MadeValue{{{y, {{.kind = ValueStep::Kind::kPermute, .numbers = {1, 0}}}}}});
    return match;
  }

  void join(const HeldValue& one, const HeldValue& other, bool transposed = false) {
    ++count_;
    for (const auto& [role, tensors] : one.tensors) {
      for (const uint32_t i : tensors) shared_.of_a[i] = count_;
      const auto found = other.tensors.find(role);
      if (found == other.tensors.end()) continue;
      const auto by_kind_a = by_kind(a_, kinds_a_, tensors), by_kind_b = by_kind(b_, kinds_b_, found->second);
      bool any = false;
      for (size_t kind = 0; kind < kKinds; ++kind) {
        if (by_kind_a[kind].size() != by_kind_b[kind].size()) continue;
        for (size_t k = 0; k < by_kind_a[kind].size(); ++k, any = true)
          join(by_kind_a[kind][k], by_kind_b[kind][k], transposed);
      }
      if (!any && role == "out") join(tensors.front(), found->second.front(), transposed);
    }
    for (const auto& [role, tensors] : other.tensors)
      for (const uint32_t i : tensors) shared_.of_b[i] = count_;
  }

  // Calls that compute, that hand on what they were given, and those with others inside.
  static constexpr size_t kKinds = 3;
  static std::array<std::vector<uint32_t>, kKinds> by_kind(const Side& side, const CallKinds& kinds,
                                                           const std::vector<uint32_t>& tensors) {
    std::array<std::vector<uint32_t>, kKinds> found;
    for (const uint32_t i : tensors) {
      const TensorRecord record = side.tensor(i);
      found[kinds.is_inner(record) ? 2 : kinds.is_handed_on(record) ? 1 : 0].push_back(i);
    }
    return found;
  }

  // How far apart they are; infinite where they are not near. `by_elements` says what it rests on.
  double distance(uint32_t x, uint32_t y, bool& by_elements) {
    const TensorRecord one = a_.tensor(x), other = b_.tensor(y);
    by_elements = one.has_bytes && other.has_bytes && bytes_read_ + one.byte_count + other.byte_count <= kMostBytesRead;
    if (!is_near(one, other)) return std::numeric_limits<double>::infinity();
    if (!by_elements) return distance_of(one, other);
    bytes_read_ += one.byte_count + other.byte_count;
    const auto views = read_pair(a_, b_, {.a = x, .b = y, .by = MatchedBy::kValues});
    if (!views.ok()) return std::numeric_limits<double>::infinity();
    const Measures found = measure(views->a.view, views->b.view, {.tolerance = {.equal_nan = true}, .axes = false});
    const double relative = found.rmse / found.rms_a;
    return relative <= most_apart(one, other) ? relative : std::numeric_limits<double>::infinity();
  }

  bool is_transposed(uint32_t x, uint32_t y) {
    const TensorRecord one = a_.tensor(x), other = b_.tensor(y);
    if (one.shape.size() != 2 || other.shape.size() != 2 || one.shape[0] != other.shape[1] ||
        one.shape[1] != other.shape[0] || one.role != other.role || !one.has_bytes || !other.has_bytes ||
        !is_reordered(one, other) || bytes_read_ + one.byte_count + other.byte_count > kMostBytesRead)
      return false;
    bytes_read_ += one.byte_count + other.byte_count;
    const auto views = read_pair(a_, b_, matched(x, y, true));
    return views.ok() && measure(views->a.view, views->b.view, {.axes = false}).unequal == 0;
  }

  // Weights of which one side stores the transpose.
  void join_transposed(std::map<ValueBits, HeldValue>& values_a, std::map<ValueBits, HeldValue>& values_b) {
    std::multimap<double, std::map<ValueBits, HeldValue>::iterator> by_max;
    for (auto at = values_b.begin(); at != values_b.end(); ++at)
      by_max.emplace(b_.tensor(at->second.first).fingerprint.stats.max, at);
    for (auto at = values_a.begin(); at != values_a.end();) {
      const uint32_t x = at->second.first;
      auto [other, end] = by_max.equal_range(a_.tensor(x).fingerprint.stats.max);
      while (other != end && !is_transposed(x, other->second->second.first)) ++other;
      if (other == end) {
        ++at;
        continue;
      }
      join(at->second, other->second->second, true);
      values_b.erase(other->second);
      by_max.erase(other);
      at = values_a.erase(at);
    }
  }

  void join_near(std::map<ValueBits, HeldValue>& values_a, std::map<ValueBits, HeldValue>& values_b) {
    using Size = std::pair<bool, uint64_t>;  // whether results, and how many elements
    struct OfOneSize {
      std::vector<std::map<ValueBits, HeldValue>::iterator> a, b;
    };
    std::map<Size, OfOneSize> groups;
    const auto add = [&](std::map<ValueBits, HeldValue>& values, const Side& side, auto OfOneSize::*of) {
      for (auto at = values.begin(); at != values.end(); ++at)
        if (const TensorRecord record = side.tensor(at->second.first); is_plain_float(record))
          (groups[{record.role == "out", record.fingerprint.stats.count}].*of).push_back(at);
    };
    add(values_a, a_, &OfOneSize::a);
    add(values_b, b_, &OfOneSize::b);
    for (auto& [size, group] : groups) {
      if (group.a.empty() || group.b.empty() || group.a.size() > kMostValuePairs / group.b.size()) continue;
      std::vector<Nearest> of_a(group.a.size()), of_b(group.b.size());
      bool by_elements = false;
      for (uint32_t i = 0; i < group.a.size(); ++i)
        for (uint32_t j = 0; j < group.b.size(); ++j) {
          const double far = distance(group.a[i]->second.first, group.b[j]->second.first, by_elements);
          of_a[i].add(j, far);
          of_b[j].add(i, far);
        }
      const double nearer = by_elements ? kNearerByElements : kNearerByStatistics;
      const auto is_telling = [&](const Nearest& nearest) {
        return std::isfinite(nearest.distance) &&
               nearest.next > nearer * std::max(nearest.distance, kLeastValueDistance);
      };
      for (uint32_t i = 0; i < group.a.size(); ++i) {
        if (!is_telling(of_a[i]) || !is_telling(of_b[of_a[i].index]) || of_b[of_a[i].index].index != i) continue;
        const auto other = group.b[of_a[i].index];
        join(group.a[i]->second, other->second);
        values_a.erase(group.a[i]);
        values_b.erase(other);
      }
    }
  }

  static std::vector<uint32_t> free_results(const std::map<ValueBits, HeldValue>& values, const Side& side) {
    std::vector<uint32_t> results;
    for (const auto& [bits, value] : values)
      if (const TensorRecord record = side.tensor(value.first);
          record.role == "out" && record.has_bytes && is_plain_float(record) && !record.shape.empty())
        results.push_back(value.first);
    std::ranges::sort(results);
    return results;
  }

  const Side& a_;
  const Side& b_;
  const CallKinds kinds_a_, kinds_b_;
  Pairing& pairing_;
  SharedValues shared_;
  uint32_t count_ = 0;
  uint64_t bytes_read_ = 0;
};

}  // namespace

SharedValues match_by_value(const Side& a, const Side& b, Pairing& pairing) {
  return ValueMatcherOfModules(a, b, pairing).run();
}

}  // namespace ttap
