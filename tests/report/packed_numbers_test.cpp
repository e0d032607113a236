#include "report/text/packed_numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "report/written_text.h"

namespace ttap {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

nlohmann::json packed(const std::vector<double>& numbers) {
  return nlohmann::json::parse(written([&](Output& out) {
    JsonWriter json(out);
    write_packed(json, numbers);
  }));
}

// The reader, from the header's words.
std::vector<double> unpacked(const nlohmann::json& json) {
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<unsigned> bytes;
  unsigned bits = 0, held = 0;
  for (const char c : json["base64"].get<std::string>()) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<unsigned>(letters.find(c));
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes.push_back(bits >> held & 255);
  }
  const double low = std::log(json["low"].get<double>());
  const double step = (std::log(json["high"].get<double>()) - low) / 65533;
  std::vector<double> numbers;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    const unsigned code = bytes[i] | bytes[i + 1] << 8;
    numbers.push_back(code == 0 ? 0 : code == 65535 ? kInfinity : std::exp(low + (code - 1) * step));
  }
  return numbers;
}

TEST(PackedNumbers, ComeBackToWithinATenthOfAPercent) {
  const std::vector<double> numbers = {1e-30, 3.7e-5, 0.2, 1, 41.5, 1e20};
  const std::vector<double> back = unpacked(packed(numbers));
  ASSERT_EQ(back.size(), numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) EXPECT_NEAR(back[i] / numbers[i], 1, 0.001) << numbers[i];
}

TEST(PackedNumbers, SpanAllThatADoubleCan) {
  const std::vector<double> back = unpacked(packed({1e-308, 1, 1.7e308}));
  EXPECT_NEAR(back[0] / 1e-308, 1, 0.02);
  EXPECT_NEAR(back[1], 1, 0.02);
  EXPECT_NEAR(back[2] / 1.7e308, 1, 0.02);
}

TEST(PackedNumbers, KeepZeroAndInfinityApart) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(unpacked(packed({0, 1, kInfinity, nan, 0})), (std::vector<double>{0, 1, kInfinity, kInfinity, 0}));
}

TEST(PackedNumbers, OfNothingButZerosOrNothingAtAllHaveNoRange) {
  EXPECT_EQ(packed({0, 0}), (nlohmann::json{{"low", 0}, {"high", 0}, {"base64", "AAAAAA=="}}));
  EXPECT_EQ(packed({}), (nlohmann::json{{"low", 0}, {"high", 0}, {"base64", ""}}));
}

TEST(PackedNumbers, ThatAreAllTheSameComeBackAsOne) {
  for (const double number : unpacked(packed({0.1, 0.1}))) EXPECT_DOUBLE_EQ(number, 0.1);
}

}  // namespace
}  // namespace ttap
