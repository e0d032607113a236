#pragma once

#include <cstdint>

#include "ttap/quant.h"

// Rows of codes, a byte each, in and out of the form they are stored in.
namespace ttap {

uint64_t packed_bytes(const QuantFormat& format, uint64_t codes);
void unpack_row(const QuantFormat& format, const uint8_t* packed, uint64_t codes, uint8_t* bytes);
void pack_row(const QuantFormat& format, const uint8_t* bytes, uint64_t codes, uint8_t* packed);

}  // namespace ttap
