#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "analyze/values/number.h"
#include "ttap/run.h"

namespace ttap {

// The statistics of a tensor: as recorded, or computed from its bytes where none were (foreign formats). Fails as
// Pass::read() does; kNotRecorded when there is neither.
Result<Stats> stats_of(const Pass& pass, size_t tensor);

// What to look at, and who wants to know how far it got. Called with each tensor in turn.
struct ScanOptions {
  std::function<bool(const TensorRecord&)> wanted = {};  // default: every tensor
  std::function<void(const TensorRecord&)> progress = {};
};

struct Nonfinite {
  size_t tensor = 0;
  uint64_t values = 0;
  uint64_t nan = 0;
  uint64_t pos_inf = 0;
  uint64_t neg_inf = 0;
};

// A tensor that could not be judged, and why.
struct Unjudged {
  size_t tensor = 0;
  Error error = {};
};

// Finite, but close to where it would not be, or to nothing.
enum class Suspicion : uint8_t {
  kNearOverflow,  // f16 with magnitudes above half of what it can hold; at the very end stands what was put there
  kUnderflow,     // a tenth of the values that are not zero are subnormal: they have lost digits
};
struct Suspect {
  size_t tensor = 0;
  Suspicion suspicion = Suspicion::kNearOverflow;
  Stats stats = {};
};

struct NonfiniteReport {
  uint64_t judged = 0;
  uint64_t unwanted = 0;              // left out by ScanOptions::wanted
  std::vector<Nonfinite> found = {};  // in execution order
  std::vector<Unjudged> unjudged = {};
  uint64_t without_value = 0;  // tensors without a value: uninitialised memory, meta and fake tensors
  std::vector<Suspect> suspects = {};  // in execution order
};

// Every tensor of a pass that holds a NaN or an infinity. Tensors of a type that cannot hold one are judged by that.
NonfiniteReport find_nonfinite(const Pass& pass, const ScanOptions& options = {});

// What is known about how a NaN or infinity came into a tensor.
struct Situation {
  std::optional<Located> first = {};          // in C order; nothing when the bytes are not there
  std::vector<size_t> inputs = {};            // what went into the same call, as far as it was recorded
  std::vector<size_t> nonfinite_inputs = {};  // those of them that were not clean
  std::optional<size_t> before = {};  // the last tensor before it, of whatever operator, that is known to be clean
};
Situation situation_of(const Pass& pass, size_t tensor);

}  // namespace ttap
