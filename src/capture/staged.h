#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "capture/name_table.h"
#include "capture/staging_ring.h"
#include "cuda/device_staging.h"
#include "cuda/result_pool.h"
#include "ttap/fingerprint.h"
#include "ttap/record.h"

// What stands in the body of a ring record. All of it is plain data inside the ring, so that the ring's size bounds
// everything that waits for the disk.
namespace ttap {

enum class StagedKind : uint8_t { kBeginPass, kEndPass, kEvent, kCall, kTensor, kPiece, kFlush, kStop };

struct StagedHead {
  StagedKind kind;
  uint32_t pass = 0;  // of every record but flush and stop
};

struct StagedEndPass {
  StagedHead head{StagedKind::kEndPass};
  Ending ending = Ending::kComplete;
  DropCounts drops = {};  // on the producers' side, in this pass
};

struct StagedBeginPass {
  StagedHead head{StagedKind::kBeginPass};
  uint64_t unix_ns = 0;
  std::optional<StagedEndPass> before = {};  // of the pass that this one takes the place of
};

struct StagedEvent {
  StagedHead head{StagedKind::kEvent};
  const NameEntry* name;
  uint32_t number;
  uint32_t call;
  uint32_t parent;
  uint64_t thread;
  uint64_t time_ns;
  // In the texts behind this struct:
  std::string_view kind;
  std::string_view stack;
};

// The end of an event.
struct StagedCall {
  StagedHead head{StagedKind::kCall};
  uint32_t event;
  uint32_t forward;
  uint64_t duration_ns;
  // Behind this struct, with the texts of the uses:
  std::string_view arguments;
  std::string_view results;
  std::string_view notes;
  std::span<const Use> uses;
};

// A part of a tensor's bytes. The last one carries the fingerprint of the whole.
struct StagedPayload {
  std::span<std::byte> bytes;
  bool last;
  Fingerprint fingerprint;
};

struct StagedTensor {
  StagedHead head{StagedKind::kTensor};
  Level level;
  DType dtype;
  bool own_event;  // also stands for an event with the number `event`
  const NameEntry* name;
  const Aliases* aliases;  // null: none
  uint32_t call;
  uint32_t event;
  uint32_t value;
  uint64_t thread;
  uint64_t time_ns;
  uint64_t byte_count;  // of the whole tensor
  StagedPayload payload;
  // Of a tensor in the memory of a GPU:
  bool awaited = false;                  // `later` has the fingerprint, and how many bytes there are
  cuda::PendingResult later = {};        // null: it will not come
  cuda::DeviceStaging* bytes = nullptr;  // whose next parts are the tensor's bytes; null: none are kept
  bool bytes_lost = false;               // on the way
  bool stable = false;                   // see Place
  uint32_t elsewhere = kNoNumber;        // the pass that has its bytes, which are not here
  // Behind this struct:
  std::span<const int64_t> shape;
  std::span<const int64_t> strides;
  std::string_view role;
  std::string_view path;
  std::string_view device;
  std::string_view group;
};

// The next part of the tensor before it.
struct StagedPiece {
  StagedHead head{StagedKind::kPiece};
  StagedPayload payload;
};

struct StagedFlush {
  StagedHead head{StagedKind::kFlush};
  uint64_t ticket;
};

struct StagedStop {
  StagedHead head{StagedKind::kStop};
};

template <class T>
T& staged_as(StagingRing::Record* record) {
  return *reinterpret_cast<T*>(record->body());
}
inline uint64_t row_count(const Aliases* aliases) { return aliases == nullptr ? 1 : 1 + aliases->size(); }
inline StagedKind kind_of(StagingRing::Record* record) { return staged_as<StagedHead>(record).kind; }

}  // namespace ttap
