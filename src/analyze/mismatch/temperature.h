#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace ttap {

// A token that was drawn from these logits, and the log-probability that somebody gave it.
struct DrawnToken {
  std::vector<double> logits = {};
  int64_t token = 0;
  double logprob = 0;
};

// The temperature at which the logits give these log-probabilities; nothing where it is 1, or none explains what
// differs from those at 1.
std::optional<double> find_temperature(const std::vector<DrawnToken>& drawn);

}  // namespace ttap
