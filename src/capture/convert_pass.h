#pragma once

#include <cstdint>
#include <filesystem>

#include "ttap/result.h"
#include "ttap/run.h"

// A pass in another format is recorded as a segment all the same, which survives a crash and bounds the memory, and is
// converted when it has ended.
namespace ttap {

class GraphSteps;

struct ConvertOptions {
  Format format = Format::kPt;
  uint64_t room = UINT64_MAX;   // how much may be written; the segment is there until the other file is
  bool sync = false;            // before the segment is removed
  GraphSteps* steps = nullptr;  // for graphs as kNpy: which folders this process has
};
struct Converted {
  uint64_t bytes = 0;  // of the new file or folder
  bool segment_removed = false;
};

// Writes the finished segment again beside itself and removes it. It stays when the other format cannot say what it
// says: a tensor has no bytes, something was dropped, or the pass was not completed; the index of a graph can. It stays
// on every error, too; kNoSpace when there is not enough room.
Result<Converted> convert_pass(const std::filesystem::path& segment, const ConvertOptions& options);

}  // namespace ttap
