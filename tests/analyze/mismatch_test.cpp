#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "analyze/mismatch/logits.h"
#include "analyze/mismatch/temperature.h"

namespace ttap {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

TEST(LogSumExp, IsExactForAnyNumbers) {
  EXPECT_DOUBLE_EQ(log_sum_exp({0, 0, 0, 0}), std::log(4.0));
  EXPECT_DOUBLE_EQ(log_sum_exp({1000, 1000}), 1000 + std::log(2.0));
  EXPECT_DOUBLE_EQ(log_sum_exp({-1000, -kInfinite}), -1000);
  EXPECT_EQ(log_sum_exp({-kInfinite, -kInfinite}), -kInfinite);
  EXPECT_EQ(log_sum_exp({0, kInfinite}), kInfinite);
}

// Tokens drawn at random, with their log-probabilities at a temperature and noise.
std::vector<DrawnToken> drawn_at(double temperature, double noise, size_t count = 40) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  std::vector<DrawnToken> drawn;
  for (size_t i = 0; i < count; ++i) {
    DrawnToken token{.token = static_cast<int64_t>(random() % 50)};
    for (int k = 0; k < 50; ++k) token.logits.push_back(3 * normal(random));
    std::vector<double> scaled = token.logits;
    for (double& logit : scaled) logit /= temperature;
    token.logprob = scaled[static_cast<size_t>(token.token)] - log_sum_exp(scaled) + noise * normal(random);
    drawn.push_back(std::move(token));
  }
  return drawn;
}

TEST(Temperature, IsFoundWhereItExplainsWhatDiffers) {
  for (const double temperature : {0.1, 0.6, 0.95, 1.02, 1.5, 4.0}) {
    const auto found = find_temperature(drawn_at(temperature, 1e-4));
    ASSERT_TRUE(found.has_value()) << temperature;
    EXPECT_NEAR(*found, temperature, 1e-3 * temperature);
  }
}

TEST(Temperature, IsNotFoundInNoiseOrInOtherFaults) {
  EXPECT_FALSE(find_temperature(drawn_at(1, 0)).has_value());
  EXPECT_FALSE(find_temperature(drawn_at(1, 0.05)).has_value());
  EXPECT_FALSE(find_temperature(drawn_at(0.99, 0.5)).has_value());  // hidden by what else differs
  EXPECT_FALSE(find_temperature(drawn_at(0.7, 0, 3)).has_value());  // too few tokens
  // One column of the head is wrong.
  std::vector<DrawnToken> drawn = drawn_at(1, 0);
  for (DrawnToken& token : drawn) token.logits[5] += 4;
  EXPECT_FALSE(find_temperature(drawn).has_value());
}

}  // namespace
}  // namespace ttap
