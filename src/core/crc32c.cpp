#include "core/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace ttap {
namespace {

constexpr std::array<std::array<uint32_t, 256>, 8> make_tables() {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0);
    tables[0][i] = crc;
  }
  for (size_t t = 1; t < 8; ++t)
    for (size_t i = 0; i < 256; ++i) tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xFF];
  return tables;
}

constexpr auto kTables = make_tables();

// By the processor's own instructions, where it has them.
#if defined(__x86_64__)
#define TTAP_HAS_CRC __attribute__((target("sse4.2")))
bool has_crc() { return __builtin_cpu_supports("sse4.2"); }
TTAP_HAS_CRC uint32_t add_word(uint32_t crc, uint64_t word) { return static_cast<uint32_t>(_mm_crc32_u64(crc, word)); }
TTAP_HAS_CRC uint32_t add_byte(uint32_t crc, uint8_t byte) { return _mm_crc32_u8(crc, byte); }
#elif defined(__aarch64__)
#define TTAP_HAS_CRC
bool has_crc() { return (::getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
uint32_t add_word(uint32_t crc, uint64_t word) {
  asm(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
  return crc;
}
uint32_t add_byte(uint32_t crc, uint8_t byte) {
  asm(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"(byte));
  return crc;
}
#endif

#if defined(TTAP_HAS_CRC)
TTAP_HAS_CRC uint32_t crc32c_native(std::span<const std::byte> bytes, uint32_t seed) {
  uint32_t crc = ~seed;
  const std::byte* p = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, p += 8) {
    uint64_t word = 0;
    std::memcpy(&word, p, 8);
    crc = add_word(crc, word);
  }
  for (; left > 0; --left, ++p) crc = add_byte(crc, static_cast<uint8_t>(*p));
  return ~crc;
}
#endif

}  // namespace

uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t seed) {
  uint32_t crc = ~seed;
  const std::byte* p = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, p += 8) {
    uint64_t word = 0;
    std::memcpy(&word, p, 8);
    word ^= crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][(word >> (8 * i)) & 0xFF];
  }
  for (; left > 0; --left, ++p) crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<uint8_t>(*p)) & 0xFF];
  return ~crc;
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc) {
#if defined(TTAP_HAS_CRC)
  static const bool native = has_crc();
  if (native) return crc32c_native(bytes, crc);
#endif
  return crc32c_portable(bytes, crc);
}

}  // namespace ttap
