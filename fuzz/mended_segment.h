#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/crc32c.h"
#include "format/frame.h"
#include "ttap/fingerprint.h"

// Makes every checksum and hash of a segment hold, so that a fuzzer gets at what lies behind them.
namespace ttap::fuzz {

using Bytes = std::span<std::byte>;

inline void mend_last_word(Bytes record) {
  const uint32_t crc = crc32c(record.first(60));
  std::memcpy(record.data() + 60, &crc, sizeof crc);
}

// Of rows whose bytes lie in the file.
inline void mend_hashes(Bytes file, Bytes rows) {
  for (; rows.size() >= sizeof(format::TensorRow); rows = rows.subspan(sizeof(format::TensorRow))) {
    format::TensorRow row;
    std::memcpy(&row, rows.data(), sizeof row);
    if ((row.flags & format::kHasBytes) == 0) continue;
    if (row.blob_offset > file.size() || row.byte_count > file.size() - row.blob_offset) continue;
    const int64_t shape[] = {static_cast<int64_t>(row.byte_count)};
    const Hash128 hash = fingerprint({file.data() + row.blob_offset, DType::kU8, shape, {}}).hash;
    row.hash_low = hash.low;
    row.hash_high = hash.high;
    std::memcpy(rows.data(), &row, sizeof row);
  }
}

inline void mend_segment(Bytes bytes) {
  if (bytes.size() < 64) return;
  std::memcpy(bytes.data(), format::kFileMagic, sizeof format::kFileMagic);
  mend_last_word(bytes.first(64));
  uint64_t offset = 64;
  while (bytes.size() - offset >= 64) {
    const Bytes rest = bytes.subspan(offset);
    if (rest.size() == 64) {
      std::memcpy(rest.data(), format::kTrailerMagic, sizeof format::kTrailerMagic);
      const uint64_t size = bytes.size();
      std::memcpy(rest.data() + 16, &size, sizeof size);
      mend_last_word(rest);
      return;
    }
    format::FrameHeader header;
    std::memcpy(&header, rest.data(), sizeof header);
    header.magic = format::kFrameMagic;
    header.payload_bytes = std::min<uint64_t>(header.payload_bytes, rest.size() - 64);
    const Bytes payload = rest.subspan(64, header.payload_bytes);
    if (static_cast<format::FrameType>(header.type) == format::FrameType::kTensors) mend_hashes(bytes, payload);
    header.payload_crc = crc32c(payload);
    std::memcpy(rest.data(), &header, sizeof header);
    mend_last_word(rest.first(64));
    offset += 64 + format::align_up(header.payload_bytes);
    if (offset > bytes.size()) return;
  }
}

}  // namespace ttap::fuzz
