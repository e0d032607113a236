#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ttap {

// CRC-32C (Castagnoli) of `bytes`, continuing from `crc` (0 at the start). Uses the CPU's instruction where
// there is one.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);

// The same in plain C++, for machines without it and for the tests.
uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t crc = 0);

}  // namespace ttap
