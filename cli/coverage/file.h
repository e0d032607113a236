#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ttap/record.h"
#include "ttap/result.h"
#include "ttap/run.h"

// What a rank says of itself in coverage.json when it has closed its recorder.
namespace ttap::cli {

// What the source of the tensors (the Python package) adds: which modules it met, and which it could not record.
struct SourceCoverage {
  struct Root {
    std::string name;
    uint64_t modules = 0;
    uint64_t selected = 0;
    uint64_t passes = 0;
  };
  struct NeverCalled {
    std::string name;
    std::string type;
    std::string why;
  };
  struct WithoutTensors {
    std::string name;
    uint64_t calls = 0;
  };
  struct Unsupported {
    std::string why;
    uint64_t count = 0;
    std::string first;  // key of the first one
  };
  std::vector<Root> roots = {};
  std::vector<NeverCalled> never_called = {};
  std::vector<WithoutTensors> without_tensors = {};
  std::vector<Unsupported> unsupported = {};
  uint64_t outside_steps = 0;
  uint64_t late_gradients = 0;
  std::vector<std::string> notes = {};
};

struct Coverage {
  struct PatternMatches {
    std::string pattern;
    uint64_t names = 0;
  };
  uint64_t passes = 0;
  uint64_t tensors = 0;
  uint64_t tensor_bytes = 0;
  uint64_t deduplicated = 0;
  uint64_t file_bytes = 0;
  uint64_t names_seen = 0;
  uint64_t names_recorded = 0;
  std::vector<PatternMatches> patterns = {};
  DropCounts drops = {};
  uint64_t lost_passes = 0;  // of which no file could be made
  std::string first_error = {};
  uint64_t staging_peak_bytes = 0;
  std::optional<SourceCoverage> source = {};

  // Members this program does not know, as `source.roots[0].dtype` and JSON text.
  std::vector<std::pair<std::string, std::string>> others = {};
  std::string json = {};  // the whole document on one line
};

// Of a rank directory; nothing when it has no coverage.json. A member may be missing; one of another type than
// expected, like text that is no JSON, is kCorrupt.
Result<std::optional<Coverage>> read_coverage(const std::filesystem::path& rank_directory);

// Why a rank has no coverage.json, as far as can be seen: "its process is still recording".
std::string why_no_coverage(const Rank& rank);

}  // namespace ttap::cli
