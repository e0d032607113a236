#include <fmt/format.h>

#include "analyze/diff/match/key_index.h"
#include "analyze/diff/match/pairing.h"

namespace ttap {
namespace {

// One side of an operation: whose keys the pattern is for, or whose tensors they are made of.
struct MappedSide {
  const Side& side;
  bool is_a;
  const KeyIndex& index;
};

class MapMatcher {
 public:
  MapMatcher(const NameMap& map, Pairing& pairing) : map_(map), pairing_(pairing) {}

  void drop(const NameMap::Operation& operation, const MappedSide& of) {
    for_each_key(operation, of, [&](uint32_t tensor, const std::string&) {
      of.is_a ? pairing_.drop_a(tensor, operation.rule.line()) : pairing_.drop_b(tensor, operation.rule.line());
      ++operation.used;
    });
  }

  // The keys of `whole` are made of tensors of `other`.
  void make(const NameMap::Operation& operation, const MappedSide& whole, const MappedSide& other) {
    for_each_key(operation, whole, [&](uint32_t tensor, const std::string& key) {
      auto made = made_of(operation, key, other);
      if (!made) return;
      ++operation.used;
      settle(whole.is_a, tensor);
      const bool is_slice = operation.rule.operation() == MapRule::Operation::kSlice;
      for (const MadeValue::Part& part : made->parts)
        is_slice ? slice(other.is_a, part.tensor) : settle(other.is_a, part.tensor);
      const uint32_t first = made->parts.front().tensor;
      Match match{.a = whole.is_a ? tensor : first, .b = whole.is_a ? first : tensor, .by = MatchedBy::kMap};
      match.rule = operation.rule.line();
      // A part that is the whole tensor as it is, is no part.
      if (made->parts.size() > 1 || !made->parts.front().steps.empty())
        (whole.is_a ? match.made_b : match.made_a) = std::make_shared<const MadeValue>(std::move(*made));
      pairing_.join_part(std::move(match));
    });
  }

 private:
  void settle(bool of_a, uint32_t tensor) { of_a ? pairing_.settle_a(tensor) : pairing_.settle_b(tensor); }
  void slice(bool of_a, uint32_t tensor) { of_a ? pairing_.slice_a(tensor) : pairing_.slice_b(tensor); }
  bool is_settled(bool of_a, uint32_t tensor) const {
    return of_a ? pairing_.is_settled_a(tensor) : pairing_.is_settled_b(tensor);
  }

  // Those that no rule before it has settled.
  template <class Visit>
  void for_each_key(const NameMap::Operation& operation, const MappedSide& of, Visit&& visit) {
    const Pattern* pattern = operation.rule.pattern(of.is_a);
    for (uint32_t i = 0; pattern != nullptr && i < of.side.tensor_count(); ++i) {
      if (is_settled(of.is_a, i)) continue;
      if (const std::string key = to_string(of.side.tensor(i).key()); pattern->found_in(key)) visit(i, key);
    }
  }

  std::optional<MadeValue> made_of(const NameMap::Operation& operation, const std::string& key,
                                   const MappedSide& other) {
    MadeValue made{.join = operation.rule.join(), .rule = operation.rule.text()};
    for (const std::string& wanted : operation.rule.keys_for(key)) {
      const auto parsed = parse_key(wanted);
      const auto found =
          parsed.ok() ? other.index.find({parsed->name, parsed->call, parsed->role, parsed->path}) : std::nullopt;
      if (!found) {
        if (operation.incomplete++ == 0)
          operation.lacks = fmt::format("'{}' of {} is made of '{}', and {} has none", key, other.is_a ? "B" : "A",
                                        wanted, other.is_a ? "A" : "B");
        return std::nullopt;
      }
      const TensorRecord record = other.side.tensor(*found);
      auto steps = operation.rule.steps_for({record.shape.begin(), record.shape.end()},
                                            other.side.recorded_rows(*found));
      if (!steps.ok()) {
        Error error = std::move(steps).error();
        error.message = fmt::format("of '{}': {}", wanted, error.message);
        map_.fail(operation.rule, key, std::move(error));
        return std::nullopt;
      }
      made.axis = steps->axis;
      made.parts.push_back({static_cast<uint32_t>(*found), std::move(steps->steps)});
    }
    return made;
  }

  const NameMap& map_;
  Pairing& pairing_;
};

void match_by_names(const Side& a, const Side& b, const NameMap& map, Pairing& pairing) {
  const KeyIndex index(a, [&](size_t tensor) { return !pairing.has_a(tensor) && !pairing.is_settled_a(tensor); });
  for (size_t i = 0; i < pairing.count_b(); ++i) {
    if (pairing.has_b(i) || pairing.is_settled_b(i)) continue;
    const std::string given = to_string(b.tensor(i).key());
    const std::string mapped = map.apply(given);
    if (mapped == given) continue;
    pairing.rename_b(i);
    const auto key = parse_key(mapped);
    if (!key.ok()) continue;
    const auto found = index.find({key->name, key->call, key->role, key->path});
    // Parts of two quantized tensors wait for those.
    if (!found || pairing.has_a(*found) || !(pairing.is_free_a(*found) || pairing.is_free_b(i))) continue;
    pairing.join(*found, i, MatchedBy::kMap);
  }
}

}  // namespace

void match_by_map(const Side& a, const Side& b, const NameMap& map, Pairing& pairing) {
  if (!map.operations().empty()) {
    const auto all = [](size_t) { return true; };
    const KeyIndex index_a(a, all), index_b(b, all);
    const MappedSide of_a{a, true, index_a}, of_b{b, false, index_b};
    MapMatcher matcher(map, pairing);
    for (const NameMap::Operation& operation : map.operations()) {
      if (operation.rule.operation() == MapRule::Operation::kDrop) {
        matcher.drop(operation, of_a);
        matcher.drop(operation, of_b);
      } else {
        matcher.make(operation, of_a, of_b);
        matcher.make(operation, of_b, of_a);
      }
    }
  }
  match_by_names(a, b, map, pairing);
}

}  // namespace ttap
