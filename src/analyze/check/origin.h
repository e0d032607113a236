#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/check/nonfinite.h"
#include "analyze/collectives/collective_call.h"
#include "ttap/run.h"

// Where the NaN and Inf of a pass came from, by what each call used: exact where uses were recorded, as ops are.
namespace ttap {

enum class OriginKind : uint8_t {
  kMade,           // a call made it, and all its arguments were finite
  kNanFromInf,     // a call made NaN, and among its arguments was Inf but no NaN
  kCameIn,         // it was an argument already, and no recorded call returned it: a weight, an input
  kUnknown,        // a call returned it, and the value of an argument is not known
  kUninitialised,  // memory that nothing had been written to
  kOnPurpose,      // a number that stands in the program is infinite or NaN: a mask
  kFromRank,       // a collective brought it: another rank's contribution held it
};
std::string_view to_string(OriginKind kind);  // "made", "nan_from_inf", "came_in", …

// What one rank gave to a collective.
struct Contribution {
  uint32_t group_rank = 0;
  std::optional<size_t> part = {};  // which of the ranks of RankOrigins; nothing where its call was not recorded
  uint32_t event = kNoEvent;
  std::vector<ContributedTensor> tensors = {};
  bool known = false;  // every value that it gave
  bool nan = false;
  bool inf = false;
  std::string missing = {};  // why it is not known
};

// A collective whose result holds NaN or Inf, and what was found out about its contributions.
struct CollectiveEvidence {
  CollectiveResult result = {};
  std::vector<Contribution> contributions = {};  // by group rank
  std::string problem = {};                      // why none of them could be looked at
};

// An origin of one of several ranks.
struct OriginPlace {
  size_t part = 0;
  size_t origin = 0;
  auto operator<=>(const OriginPlace&) const = default;
};

struct Origin {
  OriginKind kind = OriginKind::kMade;
  size_t tensor = 0;                        // the first record that holds it
  uint32_t event = kNoEvent;                // the call that made it, or that it came into
  bool nan = false;                         // NaN arose here; else only Inf
  std::optional<size_t> inf_from = {};      // kNanFromInf: the origin of the Inf; nothing when that is a literal
  std::optional<size_t> became_nan = {};    // of Inf: the first origin of kind kNanFromInf that it led to
  std::optional<size_t> first_reader = {};  // kUninitialised: the first record that was computed from it
  uint64_t heirs = 0;                       // records that hold it further on
  // Inf that went no further: each record that holds it was used up by a call that made finite values of it.
  bool harmless = false;
  // Of the result of a collective; several where their results were read as one tensor. find_origins() sees one rank
  // and leaves such an origin unknown, RankOrigins decides it.
  std::vector<CollectiveEvidence> collectives = {};
  std::optional<OriginPlace> source = {};  // kFromRank: the origin of that rank's contribution
  bool source_is_fault = true;

  // What a user wants to hear of first.
  bool is_fault() const;
};

// How a record came to hold NaN or Inf: numbers of origins. They differ where both stand in it and came from two
// places.
struct Descent {
  std::optional<size_t> nan = {};
  std::optional<size_t> inf = {};
};

class Origins {
 public:
  const std::vector<Origin>& all() const { return all_; }  // in execution order
  Descent descent(size_t tensor) const;                    // empty for a tensor that holds neither
  // Whether it arose in the call of this tensor, or came in with it, rather than being passed on to it.
  bool arose_in(size_t tensor) const { return tensor < arose_.size() && arose_[tensor]; }
  // The origin to tell of first, of all that these tensors descend from: the first fault, else the first.
  std::optional<size_t> first_of(std::span<const Nonfinite> found) const;

 private:
  friend class OriginSearch;
  friend class RankOrigins;
  std::vector<Origin> all_;
  std::vector<uint32_t> nan_;  // by tensor; kNoNumber: none
  std::vector<uint32_t> inf_;
  std::vector<bool> arose_;
};

// Whether any call of the pass tells what it used.
bool has_uses(const Pass& pass);

// `collectives` are those of the pass.
Origins find_origins(const Pass& pass, const CollectiveCalls& collectives);
inline Origins find_origins(const Pass& pass) { return find_origins(pass, CollectiveCalls(pass)); }

}  // namespace ttap
