#include "quant/packing.h"

#include <cstring>

namespace ttap {
namespace {

// Codes of six bits, four in three bytes.
void unpack_six(const uint8_t* packed, uint64_t codes, uint64_t size, uint8_t* bytes) {
  for (uint64_t i = 0; i < codes; ++i) {
    const uint64_t at = i * 6 / 8;
    const unsigned word = packed[at] | (at + 1 < size ? packed[at + 1] << 8 : 0);
    bytes[i] = static_cast<uint8_t>((word >> (i * 6 % 8)) & 0x3F);
  }
}

void pack_six(const uint8_t* bytes, uint64_t codes, uint64_t size, uint8_t* packed) {
  std::memset(packed, 0, size);
  for (uint64_t i = 0; i < codes; ++i) {
    const uint64_t at = i * 6 / 8;
    const unsigned word = (bytes[i] & 0x3Fu) << (i * 6 % 8);
    packed[at] = static_cast<uint8_t>(packed[at] | word);
    if (at + 1 < size) packed[at + 1] = static_cast<uint8_t>(packed[at + 1] | word >> 8);
  }
}

}  // namespace

uint64_t packed_bytes(const QuantFormat& format, uint64_t codes) {
  if (format.packing == QuantPacking::kNone) return codes;
  return (codes * static_cast<uint64_t>(bits_of(format.element)) + 7) / 8;
}

void unpack_row(const QuantFormat& format, const uint8_t* packed, uint64_t codes, uint8_t* bytes) {
  if (format.packing == QuantPacking::kNone) {
    std::memcpy(bytes, packed, codes);
    return;
  }
  if (bits_of(format.element) == 6) {
    unpack_six(packed, codes, packed_bytes(format, codes), bytes);
    return;
  }
  const unsigned first = format.packing == QuantPacking::kHighFirst ? 4 : 0;
  for (uint64_t i = 0; i + 1 < codes; i += 2) {
    const unsigned byte = packed[i / 2];
    bytes[i] = static_cast<uint8_t>((byte >> first) & 0xF);
    bytes[i + 1] = static_cast<uint8_t>((byte >> (4 - first)) & 0xF);
  }
  if (codes % 2 != 0) bytes[codes - 1] = static_cast<uint8_t>((packed[codes / 2] >> first) & 0xF);
}

void pack_row(const QuantFormat& format, const uint8_t* bytes, uint64_t codes, uint8_t* packed) {
  if (format.packing == QuantPacking::kNone) {
    std::memcpy(packed, bytes, codes);
    return;
  }
  if (bits_of(format.element) == 6) {
    pack_six(bytes, codes, packed_bytes(format, codes), packed);
    return;
  }
  const unsigned first = format.packing == QuantPacking::kHighFirst ? 4 : 0;
  for (uint64_t i = 0; i < codes; i += 2) {
    const unsigned second = i + 1 < codes ? bytes[i + 1] & 0xFu : 0;
    packed[i / 2] = static_cast<uint8_t>((bytes[i] & 0xFu) << first | second << (4 - first));
  }
}

}  // namespace ttap
