#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ttap/api.h"
#include "ttap/key.h"
#include "ttap/record.h"
#include "ttap/result.h"
#include "ttap/tensor_view.h"

// Reading what was recorded: a Run has Ranks, a Rank has passes, a Pass has events and tensors.
namespace ttap {

// Every one of them can be read; a recording is made as segments and exported to the others.
enum class Format : uint8_t { kSegment, kPt, kSafetensors, kNpy };
TTAP_API std::string_view to_string(Format format);  // "ttap", "pt", "safetensors", "npy"
TTAP_API std::optional<Format> format_from_name(std::string_view name);

struct PassInfo {
  std::filesystem::path path;
  Format format = Format::kSegment;
  uint32_t number = 0;
  Ending ending = Ending::kComplete;
  bool being_written = false;  // incomplete because its process is still at work
  uint64_t file_bytes = 0;
  uint64_t readable_bytes = 0;  // less than file_bytes when the tail is torn or damaged
  std::string problem = {};     // what the reader met at readable_bytes; empty when the file is sound
  uint64_t started_unix_ns = 0;
  DropCounts drops = {};
  std::string metadata_json = "{}";     // what the recorder wrote about the program
  std::vector<std::string> notes = {};  // what a foreign file holds besides tensors, and which other pass is missing
};

// One pass, open for reading. Cheap to move; records and views it hands out live as long as it does. Reading from
// several threads is fine.
class TTAP_API Pass {
 public:
  // A pass file of any format, or a folder of .npy files. Of the folders of a pass that executed several graphs, any.
  static Result<Pass> open(const std::filesystem::path& path);
  Pass(Pass&&) noexcept;
  Pass& operator=(Pass&&) noexcept;
  ~Pass();

  const PassInfo& info() const;
  size_t event_count() const;
  EventRecord event(size_t index) const;
  UseRecord use(size_t event, size_t index) const;  // index below the event's use_count
  size_t tensor_count() const;
  TensorRecord tensor(size_t index) const;  // in execution order

  std::optional<size_t> find(const Key& key) const;
  // The bytes of a tensor, in C order where TensorTap wrote them. They are checked against the recorded hash; a
  // difference is kCorrupt. kNotRecorded when only metadata or a fingerprint was kept.
  Result<TensorView> read(size_t index) const;
  // The bytes of a tensor that did not change may have been kept once, in another pass of the rank: that pass, when it
  // is not here or does not have them, and the tensor so has no bytes. Nothing for every other tensor.
  std::optional<uint32_t> missing_from(size_t index) const;
  // Where in the file those bytes lie, when they lie there just as read() gives them; nothing for other formats, and
  // for a tensor without bytes or elements.
  std::optional<uint64_t> file_offset(size_t index) const;

  class Source;  // one per format, in src/store

 private:
  explicit Pass(std::unique_ptr<Source> source);
  std::unique_ptr<Source> source_;
};

// A pass found in a rank's folder and not opened yet.
struct PassFile {
  std::filesystem::path path;
  Format format = Format::kSegment;
  uint32_t number = 0;
};

struct Rank {
  std::filesystem::path path;
  uint32_t number = 0;
  int64_t pid = 0;
  std::vector<PassFile> passes = {};  // by number; other formats of a pass only when its segment is not there
};

struct TTAP_API Run {
  std::filesystem::path path;
  std::vector<Rank> ranks = {};  // by number, then by process
  uint32_t number = 1;           // of the runs in its directory,
  uint32_t runs = 1;             // and how many those are

  // A run directory, a rank directory, or a single pass: the latter two give a run with one rank. Of a directory that
  // was recorded into several times, the newest run; the others are opened by the paths that runs_in() gives.
  static Result<Run> open(const std::filesystem::path& path);
};

// A run of a directory: the first one's ranks lie in the directory itself, those of later ones in run00002, …
struct RunFolder {
  uint32_t number = 1;
  std::filesystem::path path;  // for Run::open(); of the first of several DIRECTORY/run00001, which is no folder
};
// The runs of a directory, the oldest first; empty when nothing was recorded there.
TTAP_API Result<std::vector<RunFolder>> runs_in(const std::filesystem::path& directory);

// Makes a finished file of what a dead process left: cuts the torn tail, adds the index, takes `.incomplete` off the
// name. How the pass ended stays `incomplete`. Refuses while the process still writes, and unless `force` where that
// cannot be told, on a file system without locks.
struct Recovered {
  std::filesystem::path path;
  uint64_t tensors = 0;
  uint64_t cut_bytes = 0;
};
TTAP_API Result<Recovered> recover_pass(const std::filesystem::path& path, bool force = false);

// Writes a pass in another format as `directory/pass00003.pt`, `.safetensors`, or for kNpy a folder `pass00003`; a pass
// of graphs for kNpy as folders `graph_{id}/{step}`, whose index.json holds everything else that is known of it.
// Tensors that `wanted` rejects are left out; tensors without bytes are left out and counted.
struct Exported {
  std::filesystem::path path;
  std::vector<std::filesystem::path> parts = {};  // further folders, of a pass of several graphs
  uint64_t tensors = 0;
  uint64_t without_bytes = 0;
  uint64_t missing = 0;  // of those: the bytes are in another pass, see Pass::missing_from()
};
TTAP_API Result<Exported> export_pass(const Pass& pass, Format format, const std::filesystem::path& directory,
                                      const std::function<bool(const TensorRecord&)>& wanted = {});

}  // namespace ttap
