#include "analyze/diff/match/quant_parts.h"

#include <algorithm>
#include <unordered_set>

#include "analyze/check/quant_groups.h"
#include "ttap/group.h"

namespace ttap {
namespace {

std::string key_text(const Side& side, size_t tensor) { return to_string(side.tensor(tensor).key()); }

// Parts of `side` whose key the other side has as a tensor like any other.
std::unordered_set<std::string> plain_elsewhere(const Side& side, const QuantParts& parts, const Side& other,
                                                const QuantParts& other_parts) {
  std::unordered_set<std::string> keys, found;
  for (size_t i = 0; i < side.tensor_count() && !parts.none(); ++i)
    if (parts.is_part(i)) keys.insert(key_text(side, i));
  for (size_t i = 0; i < other.tensor_count() && !keys.empty(); ++i)
    if (!other_parts.is_part(i))
      if (std::string key = key_text(other, i); keys.contains(key)) found.insert(std::move(key));
  return found;
}

// Whether anything but the shape can be told of the two.
bool has_evidence(const TensorRecord& a, const TensorRecord& b) {
  return (a.has_bytes && b.has_bytes) || (a.has_fingerprint && b.has_fingerprint);
}

class PartMatching {
 public:
  PartMatching(const Side& a, const QuantParts& parts_a, const Side& b, const QuantParts& parts_b, Pairing& pairing)
      : a_(a), b_(b), parts_a_(parts_a), parts_b_(parts_b), pairing_(pairing) {}

  void match(size_t a, size_t b) {
    const auto *of_a = parts_a_.of(a), *of_b = parts_b_.of(b);
    if (of_a == nullptr || of_b == nullptr) return;
    const TensorRecord whole_a = a_.tensor(a), whole_b = b_.tensor(b);
    // The parts of other formats say nothing about each other.
    const bool by_part = !has_evidence(whole_a, whole_b) && same_format(whole_a, whole_b);
    const Match whole = pairing_.of_a(a);
    for (const auto& [step, part] : *of_a) {
      const auto other = of_b->find(step);
      if (other == of_b->end() || pairing_.has_a(part) || pairing_.has_b(other->second)) continue;
      const bool second_group = step == kColumnwiseStep;
      if (!second_group && !(by_part && has_evidence(a_.tensor(part), b_.tensor(other->second)))) continue;
      pairing_.join(part, other->second, whole.by, whole.confidence);
      if (second_group) match(part, other->second);
    }
  }

 private:
  const Side &a_, &b_;
  const QuantParts &parts_a_, &parts_b_;
  Pairing& pairing_;
};

}  // namespace

QuantParts::QuantParts(const Side& side) {
  struct Part {
    size_t whole;
    std::string step;
  };
  std::unordered_map<std::string, Part> wanted;
  for_each_group(side, [&](size_t tensor, Key key, const std::vector<std::string>& steps) {
    const std::string own = key.path;
    for (const std::string& step : steps) {
      key.path = append_path(own, step);
      wanted.try_emplace(to_string(key), Part{tensor, step});
    }
    key.path = own + std::string(kColumnwiseStep);
    wanted.try_emplace(to_string(key), Part{tensor, std::string(kColumnwiseStep)});
  });
  if (wanted.empty()) return;
  const size_t count = side.tensor_count();
  is_part_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const auto found = wanted.find(key_text(side, i));
    if (found == wanted.end()) continue;
    is_part_[i] = true;
    parts_[found->second.whole].try_emplace(found->second.step, i);
  }
}

const std::unordered_map<std::string, size_t>* QuantParts::of(size_t tensor) const {
  const auto found = parts_.find(tensor);
  return found == parts_.end() ? nullptr : &found->second;
}

void close_parts(const Side& a, const QuantParts& parts_a, const Side& b, const QuantParts& parts_b, Pairing& pairing) {
  if (parts_a.none() && parts_b.none()) return;
  const auto plain_in_b = plain_elsewhere(a, parts_a, b, parts_b), plain_in_a = plain_elsewhere(b, parts_b, a, parts_a);
  for (size_t i = 0; i < pairing.count_a(); ++i)
    if (parts_a.is_part(i) && !plain_in_b.contains(key_text(a, i))) pairing.close_a(i, false);
  for (size_t i = 0; i < pairing.count_b(); ++i)
    if (parts_b.is_part(i) && !plain_in_a.contains(key_text(b, i))) pairing.close_b(i, false);
}

void match_parts(const Side& a, const QuantParts& parts_a, const Side& b, const QuantParts& parts_b, Pairing& pairing) {
  if (parts_a.none() || parts_b.none()) return;
  PartMatching matching(a, parts_a, b, parts_b, pairing);
  for (size_t i = 0; i < pairing.count_a(); ++i)
    if (pairing.has_a(i)) matching.match(i, pairing.of_a(i).b);
}

}  // namespace ttap
