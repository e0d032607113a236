#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/graph_memory.h"
#include "cuda/result_pool.h"
#include "ttap/recorder.h"

namespace ttap {

inline constexpr uint32_t kNoTap = UINT32_MAX;

// What a source has begun with a tensor on a GPU before it hands it over. One of the two is set.
struct TensorOnGpu {
  cuda::PendingResult later = {};  // its fingerprint is on its way, and then the recorder's
  uint32_t tap = kNoTap;           // it is tapped in the graph of its call (GraphPass): each replay has a fingerprint
};

// What a recorder tapped in one captured CUDA graph: the calls as they were captured, which every replay repeats with
// other values. Filled by the threads that capture, under their recorder's lock for it; read by the one that takes
// replays, after finish().
class TTAP_API GraphPass {
 public:
  GraphPass(std::shared_ptr<cuda::GraphMemory> memory, uint64_t most_copied_bytes)
      : memory_(std::move(memory)), most_copied_bytes_(most_copied_bytes) {}

  uint64_t number() const { return number_; }  // unique in the process

  // The calls of the capture, in order.
  void add_event(const EventInfo& info, const Event& event);
  void add_tensor(const Event& event, const TensorView& tensor, const Place& place, Level level, uint32_t tap);
  void end_event(const Event& event, const CallInfo& call);

  // A place for a tensor's values in each replay. The source launches the fingerprint into it.
  struct Tap {
    cuda::GraphMemory::Tap place;
    Level level;  // kSketch where the bytes would not fit
  };
  Result<Tap> add_tap(Level level, uint64_t bytes);
  // The same, with the launch: into the graph that is captured on this stream.
  Result<Tap> tap(const TensorView& tensor, const OnGpu& where, Level level);

  cuda::GraphMemory& memory() { return *memory_; }
  std::mutex& mutex() { return mutex_; }
  Status finish(cuda::Stream stream, const cuda::GraphMemory::RingOptions& options);
  // Whether anything more can come of it.
  bool is_done() const { return memory_->graph_is_gone(); }
  uint64_t not_copied() const { return not_copied_; }

  // Records the oldest replay that was not taken, as a pass. False: there is none.
  bool take_replay(Recorder& recorder);
  void count_replay(bool recorded) { ++(recorded ? replays_ : lost_replays_); }
  uint64_t replays() const { return replays_; }
  uint64_t lost_replays() const { return lost_replays_ + memory_->ring().overwritten(); }

 private:
  struct OwnUse {
    std::string role, path;
    uint32_t tensor, value;
    bool written;
  };
  struct Call {
    std::string name, kind, stack;
    uint32_t parent;  // index, or kNoEvent
    uint32_t forward = kNoEvent;
    Level level;
    bool again;
    bool ended = false;
    std::string arguments, results, notes;
    std::vector<OwnUse> uses;
  };
  struct Tensor {
    uint32_t call;
    std::string role, path, device, group;
    DType dtype;
    std::vector<int64_t> shape, strides;
    uint32_t value;
    Level level;
    uint32_t tap;
    uint64_t bytes;
  };
  enum class Kind : uint8_t { kBegin, kTensor, kEnd };
  struct Step {
    Kind kind;
    uint32_t index;
  };
  std::optional<uint32_t> index_of(const Event& event) const;
  void record_tensor(Recorder& recorder, const Event& event, const Tensor& tensor,
                     const cuda::ReplayRing::Entry& entry) const;

  static std::atomic<uint64_t> next_number_;
  const uint64_t number_ = next_number_.fetch_add(1, std::memory_order_relaxed);
  std::mutex mutex_;
  std::shared_ptr<cuda::GraphMemory> memory_;
  uint64_t most_copied_bytes_;
  uint64_t not_copied_ = 0;
  std::deque<Call> calls_;
  std::deque<Tensor> tensors_;
  std::vector<Step> steps_;
  std::unordered_map<uint64_t, uint32_t> indices_;  // by pass and number of the event, as it was captured
  std::vector<Event> events_;                       // of the replay being recorded
  uint64_t replays_ = 0;
  uint64_t lost_replays_ = 0;
};

}  // namespace ttap
