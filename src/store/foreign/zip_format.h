#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// The numbers of the zip format (APPNOTE.TXT) that reader and writer share.
namespace ttap::zip {

inline constexpr uint32_t kLocalMark = 0x04034b50;
inline constexpr uint32_t kDescriptorMark = 0x08074b50;
inline constexpr uint32_t kCentralMark = 0x02014b50;
inline constexpr uint32_t kEndMark = 0x06054b50;
inline constexpr uint32_t kEnd64Mark = 0x06064b50;
inline constexpr uint32_t kLocator64Mark = 0x07064b50;

inline constexpr size_t kLocalSize = 30;
inline constexpr size_t kCentralSize = 46;
inline constexpr size_t kEndSize = 22;
inline constexpr size_t kEnd64Size = 56;
inline constexpr size_t kLocator64Size = 20;

inline constexpr uint16_t kEncrypted = 1 << 0;
inline constexpr uint16_t kHasDescriptor = 1 << 3;  // CRC and sizes follow the data
inline constexpr uint16_t kUtf8Name = 1 << 11;
inline constexpr uint16_t kExtra64 = 0x0001;

// In a 16- or 32-bit field: the number is in the zip64 record.
inline constexpr uint16_t kSee64Short = 0xFFFF;
inline constexpr uint32_t kSee64 = 0xFFFFFFFF;

// Little-endian at `offset`, which the caller has checked.
template <class T>
T load(std::span<const std::byte> bytes, size_t offset) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<uint64_t>(bytes[offset + i]) << (8 * i);
  return static_cast<T>(value);
}

template <class T>
void append(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
}

}  // namespace ttap::zip
