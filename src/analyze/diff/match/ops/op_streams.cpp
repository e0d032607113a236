#include "analyze/diff/match/ops/op_streams.h"

#include <array>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace ttap {
namespace {

constexpr int kDeepestStream = 256;  // ends a circle of names

// The modules of one side in which ops ran, forward or backward, and what is around each.
class Scopes {
 public:
  Scopes(const Side& side, const OpList& list) {
    for (size_t i = 0; i < side.event_count(); ++i) {
      const EventRecord event = side.event(i);
      if (event.kind != "module" || around_.contains(event.name)) continue;
      const bool inside = event.parent < side.event_count() && side.event(event.parent).kind != "graph";
      around_.emplace(event.name, inside ? side.event(event.parent).name : std::string_view());
    }
    for (const Op& op : list.ops()) {
      std::string_view scope = op.scope;
      auto& known = known_[op.backward ? 1 : 0];
      for (int depth = 0; depth < kDeepestStream && known.insert(scope).second && !scope.empty(); ++depth)
        scope = around(scope);
    }
  }

  bool has(std::string_view scope, bool backward) const { return known_[backward ? 1 : 0].contains(scope); }
  std::string_view around(std::string_view scope) const {
    if (const auto found = around_.find(scope); found != around_.end()) return found->second;
    const size_t dot = scope.rfind('.');
    return dot == std::string_view::npos ? std::string_view() : scope.substr(0, dot);
  }

 private:
  std::unordered_map<std::string_view, std::string_view> around_;
  std::array<std::unordered_set<std::string_view>, 2> known_;
};

}  // namespace

std::vector<uint32_t> OpStreams::numbers_of(const std::vector<std::vector<uint32_t>>& streams, size_t op_count) {
  std::vector<uint32_t> numbers(op_count);
  for (uint32_t stream = 0; stream < streams.size(); ++stream)
    for (const uint32_t op : streams[stream]) numbers[op] = stream;
  return numbers;
}

OpStreams find_streams(const Side& a, const OpList& ops_a, const Side& b, const OpList& ops_b) {
  const Scopes scopes_a(a, ops_a), scopes_b(b, ops_b);
  OpStreams streams;
  std::unordered_map<std::string_view, std::array<uint32_t, 2>> numbers;
  const auto add_all = [&](const OpList& list, const Scopes& own, const Scopes& others,
                           std::vector<std::vector<uint32_t>> OpStreams::*side) {
    // Per scope the one that both have; forward and backward.
    std::array<std::unordered_map<std::string_view, std::string_view>, 2> shared;
    for (uint32_t i = 0; i < list.ops().size(); ++i) {
      const Op& op = list.ops()[i];
      const auto [entry, is_new] = shared[op.backward ? 1 : 0].try_emplace(op.scope, op.scope);
      if (is_new) {
        std::string_view scope = op.scope;
        for (int depth = 0; depth < kDeepestStream && !scope.empty() && !others.has(scope, op.backward); ++depth)
          scope = own.around(scope);
        entry->second = others.has(scope, op.backward) ? scope : std::string_view();
      }
      const auto [numbered, added] = numbers.try_emplace(
          entry->second,
          std::array{static_cast<uint32_t>(streams.a.size()), static_cast<uint32_t>(streams.a.size()) + 1});
      if (added) {
        streams.a.resize(streams.a.size() + 2);
        streams.b.resize(streams.b.size() + 2);
      }
      (streams.*side)[numbered->second[op.backward ? 1 : 0]].push_back(i);
    }
  };
  add_all(ops_a, scopes_a, scopes_b, &OpStreams::a);
  add_all(ops_b, scopes_b, scopes_a, &OpStreams::b);
  return streams;
}

}  // namespace ttap
