#pragma once

#include "ttap/record.h"

// The level of a tensor row. The file has no number for kSketch: that is a fingerprint with a sketch row.
namespace ttap::format {

inline constexpr uint8_t kStoredFull = 2;

inline uint8_t stored_level(Level level) {
  switch (level) {
    case Level::kMeta: return 0;
    case Level::kFingerprint:
    case Level::kSketch: return 1;
    case Level::kFull: break;
  }
  return kStoredFull;
}

inline Level level_of(uint8_t stored, bool has_sketch) {
  if (stored == kStoredFull) return Level::kFull;
  if (stored == 0) return Level::kMeta;
  return has_sketch ? Level::kSketch : Level::kFingerprint;
}

}  // namespace ttap::format
