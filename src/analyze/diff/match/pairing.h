#pragma once

#include <span>
#include <vector>

#include "analyze/diff/match/name_map.h"
#include "analyze/diff/result/match.h"
#include "analyze/diff/sides/side.h"

// Alignment on its way: the map, ops, keys, then structure each add to one Pairing.
namespace ttap {

// Who belongs to whom so far, seen from both sides.
class Pairing {
 public:
  Pairing(size_t count_a, size_t count_b)
      : of_a_(count_a),
        of_b_(count_b, kNoTensor),
        closed_a_(count_a),
        closed_b_(count_b),
        trivial_b_(count_b),
        settled_a_(count_a),
        settled_b_(count_b),
        sliced_a_(count_a),
        sliced_b_(count_b),
        dropped_b_(count_b),
        renamed_b_(count_b) {
    for (size_t i = 0; i < count_a; ++i) of_a_[i].a = static_cast<uint32_t>(i);
  }

  size_t count_a() const { return of_a_.size(); }
  size_t count_b() const { return of_b_.size(); }
  const Match& of_a(size_t a) const { return of_a_[a]; }
  bool has_a(size_t a) const { return of_a_[a].b != kNoTensor; }
  bool has_b(size_t b) const { return of_b_[b] != kNoTensor; }
  uint32_t a_of(size_t b) const { return of_b_[b]; }
  // Neither has a partner nor is known to have none.
  bool is_free_a(size_t a) const { return !has_a(a) && !closed_a_[a]; }
  bool is_free_b(size_t b) const { return !has_b(b) && !closed_b_[b]; }
  bool has_free() const {
    for (size_t a = 0; a < count_a(); ++a)
      if (is_free_a(a)) return true;
    for (size_t b = 0; b < count_b(); ++b)
      if (is_free_b(b)) return true;
    return false;
  }

  // Nothing where the map has settled one of them otherwise.
  void join(size_t a, size_t b, MatchedBy by, float confidence = 1) {
    if (settled_a_[a] || settled_b_[b]) return;
    of_a_[a] = {static_cast<uint32_t>(a), static_cast<uint32_t>(b), by, confidence};
    of_b_[b] = static_cast<uint32_t>(a);
  }
  // One is a part of the other, which may be matched with more parts.
  void join_part(Match match) {
    if (match.by != MatchedBy::kMap && (settled_a_[match.a] || settled_b_[match.b])) return;
    if (!has_b(match.b)) of_b_[match.b] = match.a;
    has_a(match.a) ? more_.push_back(std::move(match)) : void(of_a_[match.a] = std::move(match));
  }
  std::span<const Match> more() const { return more_; }  // of tensors of A that are matched already
  void unmatch(size_t a) {
    of_b_[of_a_[a].b] = kNoTensor;
    of_a_[a] = {.a = static_cast<uint32_t>(a)};
  }
  // It has no partner, and is none of those to look for one; `trivial` as in Match.
  void close_a(size_t a, bool trivial) {
    closed_a_[a] = true;
    of_a_[a].trivial = trivial && !has_a(a);
  }
  void close_b(size_t b, bool trivial) {
    closed_b_[b] = true;
    trivial_b_[b] = trivial;
  }
  bool is_trivial_b(size_t b) const { return trivial_b_[b]; }

  // What the map says of a tensor is final: nothing else matches it.
  void settle_a(size_t a) { closed_a_[a] = settled_a_[a] = true; }
  void settle_b(size_t b) { closed_b_[b] = settled_b_[b] = true; }
  bool is_settled_a(size_t a) const { return settled_a_[a]; }
  bool is_settled_b(size_t b) const { return settled_b_[b]; }
  // The map says what slices of it are, and nothing of the rest.
  void slice_a(size_t a) { sliced_a_[a] = true; }
  void slice_b(size_t b) { sliced_b_[b] = true; }
  bool is_sliced_a(size_t a) const { return sliced_a_[a]; }
  bool is_sliced_b(size_t b) const { return sliced_b_[b]; }
  // Left out by the rule in this line.
  void drop_a(size_t a, uint32_t line) {
    settle_a(a);
    of_a_[a] = {.a = static_cast<uint32_t>(a), .dropped = true, .rule = line};
  }
  void drop_b(size_t b, uint32_t line) {
    settle_b(b);
    dropped_b_[b] = line;
  }
  uint32_t dropped_b(size_t b) const { return dropped_b_[b]; }  // the line; 0 where it is not
  // It goes by the name that the map gave it, and no longer by its key.
  void rename_b(size_t b) { renamed_b_[b] = true; }
  bool is_renamed_b(size_t b) const { return renamed_b_[b]; }

 private:
  std::vector<Match> of_a_;
  std::vector<uint32_t> of_b_;
  std::vector<bool> closed_a_, closed_b_, trivial_b_;
  std::vector<bool> settled_a_, settled_b_, sliced_a_, sliced_b_;
  std::vector<uint32_t> dropped_b_;
  std::vector<bool> renamed_b_;
  std::vector<Match> more_;
};

// Which value a tensor holds, where both sides have it: equal numbers mean the same value, 0 that only one side has it.
struct SharedValues {
  std::vector<uint32_t> of_a, of_b;  // per tensor
};

void match_by_key(const Side& a, const Side& b, Pairing& pairing);
// The only result of a module call, and the first of several that the same call of the other side returns: one of them
// hands on more. Only where their shapes agree.
void match_first_results(const Side& a, const Side& b, Pairing& pairing);
// NameMap::status() says whether a rule could not be applied to a tensor that it names.
void match_by_map(const Side& a, const Side& b, const NameMap& map, Pairing& pairing);
// Guesses at what is left, and leaves alone what it would be less sure of than kLeastConfidence.
void match_by_structure(const Side& a, const Side& b, const SharedValues& values, Pairing& pairing);
inline constexpr float kLeastConfidence = 0.5F;

}  // namespace ttap
