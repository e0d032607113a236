#pragma once

#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/ops/op_sink.h"

namespace ttap::torch_source {

// Role and path of tensors within calls, by number.
class PlaceTable {
 public:
  explicit PlaceTable(TextTable& texts)
      : texts_(texts),
        in_(texts.intern("in")),
        out_(texts.intern("out")),
        after_(texts.intern("after")),
        part_(texts.intern("part")),
        generator_(texts.intern("generator")) {}

  TextTable& texts() { return texts_; }
  TextId in() const { return in_; }
  TextId out() const { return out_; }
  TextId after() const { return after_; }
  TextId part() const { return part_; }
  TextId generator() const { return generator_; }
  const std::deque<OpPlace>& all() const { return places_; }

  PlaceId of(TextId role, TextId path) {
    const auto [found, is_new] =
        numbers_.try_emplace(uint64_t{role} << 32 | path, static_cast<PlaceId>(places_.size()));
    if (is_new) places_.push_back({role, path});
    return found->second;
  }
  PlaceId of(TextId role, const std::string& path) { return of(role, texts_.intern(path)); }

  // Of a result: the only one, or number `index` of several, or an item of a list.
  PlaceId of_result(size_t index, size_t results, int32_t item) {
    return results == 1 && item < 0 && of_only_ ? *of_only_ : find_result(index, results, item);
  }

 private:
  static constexpr size_t kCached = 8;

  PlaceId find_result(size_t index, size_t results, int32_t item) {
    if (item < 0 && index < kCached) {
      std::optional<PlaceId>& known = results > 1 ? of_several_[index] : of_only_;
      if (!known) known = of(out_, results > 1 ? "/" + std::to_string(index) : std::string());
      return *known;
    }
    std::string path;
    if (results > 1) path = "/" + std::to_string(index);
    if (item >= 0) path += "/" + std::to_string(item);
    return of(out_, path);
  }

  TextTable& texts_;
  TextId in_, out_, after_, part_, generator_;
  std::deque<OpPlace> places_;
  std::unordered_map<uint64_t, PlaceId> numbers_;
  std::optional<PlaceId> of_only_;
  std::optional<PlaceId> of_several_[kCached];
};

}  // namespace ttap::torch_source
