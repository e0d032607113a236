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

// How much of a tensor is kept, each level with what the one before it keeps: dtype and shape; hash and statistics; a
// sketch, where the dtype has one; the bytes.
enum class Level : uint8_t { kMeta, kFingerprint, kSketch, kFull };
inline constexpr bool keeps_sketch(Level level) { return level >= Level::kSketch; }
inline constexpr bool keeps_fingerprint_only(Level level) {
  return level == Level::kFingerprint || level == Level::kSketch;
}
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

  // What the source knew when the call was over; empty for one that did not return, and for sources that do not tell.
  // The texts of arguments and results show literals as Python writes them; `%N` stands for the event's use N, `%%` for
  // a percent sign: "%0, %1, alpha=2" and "(%2, %3)".
  std::string_view arguments = {};
  std::string_view results = {};
  std::string_view notes = {};  // a JSON object, or empty: what a hook returned, placements, why a tensor has no bytes
  uint32_t forward = kNoEvent;  // of an op of the backward: the op of the forward that it differentiates
  uint64_t duration_ns = 0;
  bool returned = false;  // whether the end of the call was recorded
  uint32_t use_count = 0;
};

inline constexpr uint32_t kNoNumber = 0xFFFFFFFF;

// One tensor among the arguments or results of a call, in the order of the texts above.
struct UseRecord {
  // "in": as the argument came; "after": as the call left it, having written to it; "out": a result. "part": no tensor
  // of the call, but a value that others wrote into the bytes of its argument at that path; these come last.
  std::string_view role;
  std::string_view path;        // `/0`, `/1/2`, `/out`: the argument's position, or its name where it goes by name
  uint32_t tensor = kNoNumber;  // which tensor object of the pass it was: `$3`; kNoNumber: not recorded
  // The tensor record that holds its value: of the call that made it, so that is the producer; or of this call, role
  // "in", when it came from outside. kNoNumber: its value was not recorded, or was dropped.
  uint32_t record = kNoNumber;
  bool written = false;  // the call writes to this argument
};

// The same as a source reports it, which knows values by numbers of its own.
struct Use {
  std::string_view role = "in";
  std::string_view path = {};
  uint32_t tensor = kNoNumber;
  uint32_t value = 0;  // TensorRecord::value of the record that holds it; 0: none
  bool written = false;
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
  uint32_t value = 0;       // the number by which uses refer to this record; 0: none does
  // Set: the record stands for the values of a quantized tensor, whose parts are records of their own below its path. A
  // JSON object, see group_of().
  std::string_view group = {};

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
  uint64_t unsupported = 0;   // a tensor that could not be read (dtype, dimensions, a GPU that failed) or has no key
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
