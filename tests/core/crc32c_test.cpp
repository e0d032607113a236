#include "core/crc32c.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string_view>
#include <vector>

namespace ttap {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// Bit by bit, straight from the definition.
uint32_t crc32c_by_bits(std::span<const std::byte> bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (std::byte byte : bytes) {
    crc ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
  }
  return ~crc;
}

std::vector<std::byte> random_bytes(size_t size) {
  std::mt19937 random(7);
  std::vector<std::byte> bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(Crc32c, MatchesThePublishedVectors) {
  EXPECT_EQ(crc32c({}), 0u);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283u);
  // RFC 3720, B.4.
  std::array<std::byte, 32> block{};
  EXPECT_EQ(crc32c(block), 0x8A9136AAu);
  block.fill(std::byte{0xFF});
  EXPECT_EQ(crc32c(block), 0x62A8AB43u);
  for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(block), 0x46DD794Eu);
  for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>(31 - i);
  EXPECT_EQ(crc32c(block), 0x113FDB5Cu);
}

TEST(Crc32c, BothPathsFollowTheDefinitionAtEveryLengthAndAlignment) {
  const auto bytes = random_bytes(160);
  for (size_t start = 0; start < 16; ++start)
    for (size_t length = 0; start + length <= bytes.size(); ++length) {
      const auto part = std::span(bytes).subspan(start, length);
      const uint32_t expected = crc32c_by_bits(part);
      ASSERT_EQ(crc32c(part), expected) << start << '+' << length;
      ASSERT_EQ(crc32c_portable(part), expected) << start << '+' << length;
    }
}

TEST(Crc32c, ContinuesFromAnyCut) {
  const auto bytes = random_bytes(100);
  const uint32_t whole = crc32c(bytes);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    const auto head = std::span(bytes).first(cut), tail = std::span(bytes).subspan(cut);
    EXPECT_EQ(crc32c(tail, crc32c(head)), whole) << cut;
    EXPECT_EQ(crc32c_portable(tail, crc32c_portable(head)), whole) << cut;
  }
}

}  // namespace
}  // namespace ttap
