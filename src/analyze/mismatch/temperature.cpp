#include "analyze/mismatch/temperature.h"

#include <cmath>

#include "analyze/mismatch/logits.h"

namespace ttap {
namespace {

constexpr size_t kLeastTokens = 4;
constexpr double kLeastChange = 0.002;  // of log(temperature): 0.2 %
constexpr double kUnexplained = 0.02;   // of the squared error at temperature 1 may remain
constexpr double kGolden = 0.618033988749894848;
constexpr double kLargest = 3.0;  // of log(temperature): 1/20 to 20

double squared_error(const std::vector<DrawnToken>& drawn, double log_temperature) {
  const double scale = std::exp(-log_temperature);
  double sum = 0;
  std::vector<double> scaled;
  for (const DrawnToken& each : drawn) {
    scaled = each.logits;
    for (double& logit : scaled) logit *= scale;
    const double error = scaled[static_cast<size_t>(each.token)] - log_sum_exp(scaled) - each.logprob;
    sum += error * error;
  }
  return sum;
}

}  // namespace

std::optional<double> find_temperature(const std::vector<DrawnToken>& drawn) {
  if (drawn.size() < kLeastTokens) return std::nullopt;
  const double at_one = squared_error(drawn, 0);
  // The error need not have one minimum: begin around the best of a coarse grid.
  double best = 0, best_error = at_one;
  constexpr double kStep = 0.25;
  for (double at = -kLargest; at <= kLargest; at += kStep)
    if (const double error = squared_error(drawn, at); error < best_error) {
      best = at;
      best_error = error;
    }
  double low = best - kStep, high = best + kStep;
  double left = high - kGolden * (high - low), right = low + kGolden * (high - low);
  double error_left = squared_error(drawn, left), error_right = squared_error(drawn, right);
  while (high - low > 1e-6) {
    if (error_left < error_right) {
      high = right;
      right = left;
      error_right = error_left;
      left = high - kGolden * (high - low);
      error_left = squared_error(drawn, left);
    } else {
      low = left;
      left = right;
      error_left = error_right;
      right = low + kGolden * (high - low);
      error_right = squared_error(drawn, right);
    }
  }
  const double found = (low + high) / 2;
  if (std::abs(found) < kLeastChange || !(squared_error(drawn, found) < kUnexplained * at_one)) return std::nullopt;
  return std::exp(found);
}

}  // namespace ttap
