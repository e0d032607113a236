#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ttap/dtype.h"
#include "ttap/fingerprint.h"
#include "ttap/key.h"

// What a pass holds, as a reader hands it out. Views point into the Pass they came from.
namespace ttap {

// How much of a tensor is kept.
enum class Level : uint8_t { kMeta = 0, kFingerprint = 1, kFull = 2 };
TTAP_API std::string_view to_string(Level level);
TTAP_API std::optional<Level> level_from_name(std::string_view name);

inline constexpr uint32_t kNoEvent = 0xFFFFFFFF;

// One call of one operator.
struct EventRecord {
  std::string_view name;
  std::string_view kind;  // "module", "op", "node", "kernel", "probe", …
  uint32_t call = 1;
  uint32_t parent = kNoEvent;  // index of another event of this pass
  uint64_t thread = 0;         // the operating system's thread number
  uint64_t time_ns = 0;        // since the pass began
  std::string_view stack;      // one frame per line, innermost last; empty when not recorded
};

// One tensor of an event.
struct TensorRecord {
  std::string_view name;
  uint32_t call = 1;
  std::string_view role = "out";
  std::string_view path;
  uint32_t event = kNoEvent;
  DType dtype = DType::kF32;
  std::optional<DType> true_dtype;  // set when the bytes were widened on the way out (.npy of bf16, fp8, …)
  std::span<const int64_t> shape;
  std::span<const int64_t> strides;  // of the tensor as it was captured; its stored bytes are in C order
  std::string_view device = "cpu";
  Level level = Level::kFull;
  bool has_fingerprint = false;
  Fingerprint fingerprint;  // meaningful when has_fingerprint
  bool has_bytes = false;
  uint64_t byte_count = 0;  // of the logical tensor, kept or not

  Key key() const { return {std::string(name), call, std::string(role), std::string(path)}; }
};

// How a pass ended.
enum class Ending : uint8_t {
  kComplete,    // ended by the program
  kAborted,     // the step raised
  kIncomplete,  // the process died, or is still writing
};
TTAP_API std::string_view to_string(Ending ending);

// What was seen and not kept, counted by cause.
struct DropCounts {
  uint64_t staging_full = 0;  // policy `drop`, and the ring was full
  uint64_t quota = 0;         // the quota had no room; the fingerprint is kept where even that fitted
  uint64_t disk_full = 0;     // the disk had no room; the fingerprint is kept where even that fitted
  uint64_t io_error = 0;      // a write failed for another reason
  uint64_t unsupported = 0;   // a tensor that could not be read (dtype, dimensions) or has no proper key
  uint64_t late = 0;          // tensors and events whose pass had ended; in no pass, only in the rank's coverage
  uint64_t events = 0;        // events lost, for whatever other reason; the others count tensors

  uint64_t total() const { return staging_full + quota + disk_full + io_error + unsupported + late + events; }
  DropCounts& operator+=(const DropCounts& other) {
    staging_full += other.staging_full;
    quota += other.quota;
    disk_full += other.disk_full;
    io_error += other.io_error;
    unsupported += other.unsupported;
    late += other.late;
    events += other.events;
    return *this;
  }
  bool operator==(const DropCounts&) const = default;
};

}  // namespace ttap
