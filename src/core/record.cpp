#include "ttap/record.h"

namespace ttap {

std::string_view to_string(Level level) {
  switch (level) {
    case Level::kMeta: return "meta";
    case Level::kFingerprint: return "fingerprint";
    case Level::kSketch: return "sketch";
    case Level::kFull: return "full";
  }
  return "?";
}

std::optional<Level> level_from_name(std::string_view name) {
  for (Level level : {Level::kMeta, Level::kFingerprint, Level::kSketch, Level::kFull})
    if (to_string(level) == name) return level;
  return std::nullopt;
}

std::string_view to_string(Ending ending) {
  switch (ending) {
    case Ending::kComplete: return "complete";
    case Ending::kAborted: return "aborted";
    case Ending::kIncomplete: return "incomplete";
  }
  return "?";
}

}  // namespace ttap
