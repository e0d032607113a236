#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analyze/diff/match/ops/op_keys.h"
#include "analyze/diff/match/ops/op_streams.h"
#include "analyze/diff/match/ops/side_ops.h"
#include "analyze/diff/match/pairing.h"

namespace ttap {

// Ops of both sides on their way into a Pairing.
class OpPairing {
 public:
  OpPairing(const SideOps& one, const SideOps& other, bool by_nearness, Pairing& into);

  const SideOps& listed_a;
  const SideOps& listed_b;
  const Side& side_a;
  const Side& side_b;
  const OpList& a;
  const OpList& b;
  const OpStreams streams;
  const bool nearness;  // as for match_ops()
  Pairing& pairing;

  bool has_a(uint32_t op) const { return of_a_[op] != kNoOp; }
  bool has_b(uint32_t op) const { return of_b_[op] != kNoOp; }
  uint32_t of_a(uint32_t op) const { return of_a_[op]; }
  uint32_t of_b(uint32_t op) const { return of_b_[op]; }
  // Whether one side has no op left.
  bool is_done() const { return free_a_ == 0 || free_b_ == 0; }
  bool is_complete() const { return free_a_ == 0 && free_b_ == 0; }
  // Whether the one may stand in the place of the other: what depends on no argument does not stand for a calculation.
  bool may_replace(const Op& op_a, const Op& op_b) const;
  // The two are one op, unless one may not replace the other: their values belong together, by path where they have
  // the same. Of different operators that is kPlace.
  void join(uint32_t op_a, uint32_t op_b, MatchedBy by);
  // Only these values do.
  void join_values(uint32_t tensor_a, uint32_t tensor_b, MatchedBy by);

  // Whether nothing that is known of their arguments speaks against the two being one op. Of an op that only copies,
  // its argument must speak for it where it is known.
  bool can_be_one(uint32_t op_a, uint32_t op_b) const;

  OpKeys keys_a() const;
  OpKeys keys_b() const;
  bool is_shared_a(uint32_t tensor) const { return shared_a_[tensor]; }
  bool is_shared_b(uint32_t tensor) const { return shared_b_[tensor]; }
  bool is_weight_a(uint32_t tensor) const { return weighs_a_[tensor]; }
  bool is_weight_b(uint32_t tensor) const { return weighs_b_[tensor]; }

  // Joins ops without a partner that have the same key, where both sides have as many of them (and with `alone`, only
  // where that is one): those that made the same but for rounding, others in their order. Whether there were any.
  bool join_equal(std::span<const uint64_t> keys_a, std::span<const uint64_t> keys_b, MatchedBy by, bool alone = false);

  // Joins ops without a partner, of the same operator and shapes, that made the same but for rounding, where each is by
  // far the nearest to the other and no further than `most`, by the statistics of both: compiled code has them in
  // another order. Whether there were any.
  bool join_near(double most);

  // A stretch of a stream: positions in OpStreams, between values that are matched in the same order on both sides.
  struct Gap {
    std::span<const uint32_t> a, b;
  };
  template <class Visit>
  void for_each_gap(Visit&& visit) const {
    for (size_t stream = 0; stream < streams.a.size(); ++stream)
      for (const Gap& gap : gaps_of(stream)) visit(gap);
  }

 private:
  void find_shared();
  bool join_group(std::vector<uint32_t>& ops_a, std::vector<uint32_t>& ops_b, MatchedBy by);
  // Whether what they made may be one value, by its bits or statistics.
  bool made_alike(uint32_t op_a, uint32_t op_b) const;
  std::vector<Gap> gaps_of(size_t stream) const;

  std::vector<uint32_t> of_a_, of_b_;  // the other side's op
  size_t free_a_, free_b_;             // ops without one
  std::vector<bool> shared_a_, shared_b_;
  std::vector<bool> weighs_a_, weighs_b_;  // OpKnown::weighs
  std::vector<uint32_t> stream_a_, stream_b_;
};

// What matched ops are given in the same place, where it has no counterpart yet.
void match_arguments(OpPairing& ops);
// What makes the gradient of a parameter: find_gradients().
void match_gradients(OpPairing& ops);
// Values of ops that have no counterpart yet: see match_ops().
void match_values(OpPairing& ops);

}  // namespace ttap
