#include "capture/ops/op_log.h"
#include "capture/process.h"

// What comes to an operator log later than its calls: fingerprints from a GPU, and replays of captured graphs.
namespace ttap {

void OpLog::take_what_has_arrived(Wait wait) {
  cuda::ResultPool& pool = cuda::ResultPool::of_process();
  while (!awaited_.empty() && (wait == Wait::kForAll || has_arrived(awaited_.front().result))) {
    const Awaited awaited = awaited_.front();
    awaited_.pop_front();
    const auto result = pool.wait(awaited.result);
    if (!result) {
      ++lost_fingerprints_;
      continue;
    }
    tensors_[awaited.tensor].fingerprint = static_cast<uint32_t>(fingerprints_.size());
    fingerprints_.append() = cuda::to_fingerprint(*result);
    add_bytes(sizeof(Fingerprint));
  }
}

// Of one that was lost, or whose call was never logged, the twin is lost too.
void OpLog::settle_twins() {
  std::unordered_map<uint32_t, uint32_t> fingerprints;  // by value
  for (const Twin& twin : twins_) fingerprints.emplace(twin.same_as, kNoNumber);
  for (size_t i = 0; i < tensors_.size() && !twins_.empty(); ++i)
    if (const auto found = fingerprints.find(tensors_[i].value);
        found != fingerprints.end() && tensors_[i].fingerprint != kNoNumber)
      found->second = tensors_[i].fingerprint;
  for (const Twin& twin : twins_) {
    const uint32_t fingerprint = fingerprints[twin.same_as];
    tensors_[twin.tensor].fingerprint = fingerprint;
    if (fingerprint == kNoNumber) ++lost_fingerprints_;
  }
  twins_.clear();
}

void OpLog::settle() {
  take_what_has_arrived(Wait::kForAll);
  settle_twins();
  graphs_.stop();
}

GraphPass* OpLog::graph(int device, cuda::Stream stream) {
  const auto pass = graphs_.of_capture(device, stream);
  return pass.ok() ? *pass : nullptr;
}

void OpLog::end_capture(cuda::Stream stream) { (void)graphs_.end_capture(stream); }

uint16_t OpLog::graph_index(const GraphPass& graph) {
  const std::lock_guard lock(replays_mutex_);
  for (size_t i = graph_order_.size(); i-- > 0;)
    if (graph_order_[i] == graph.number()) return static_cast<uint16_t>(i + 1);
  graph_order_.push_back(graph.number());
  return static_cast<uint16_t>(graph_order_.size());
}

// On the thread that takes replays, one at a time.
bool OpLog::take_replay(GraphPass& graph) {
  const auto entry = graph.memory().ring().next();
  if (!entry) return false;
  Replay replay{.graph = graph_index(graph), .unix_ns = unix_ns(), .fingerprints = {}};
  const uint64_t bytes = graph.memory().taps() * sizeof(Fingerprint);
  bool room = false;
  {
    const std::lock_guard lock(replays_mutex_);
    room = replay_bytes_ + bytes <= options_.limit_bytes;
    replay_bytes_ += room ? bytes : 0;
  }
  if (room)
    for (uint32_t tap = 0; tap < graph.memory().taps(); ++tap) {
      const cuda::DeviceResult& result = graph.memory().result(*entry, tap);
      replay.fingerprints.push_back(cuda::is_there(result) ? std::optional(cuda::to_fingerprint(result))
                                                           : std::nullopt);
    }
  const bool whole = graph.memory().ring().release(*entry);
  graph.count_replay(whole && room);
  if (!whole || !room) return true;
  const std::lock_guard lock(replays_mutex_);
  replays_.push_back(std::move(replay));
  return true;
}

uint64_t OpLog::replays() const {
  const std::lock_guard lock(replays_mutex_);
  return replays_.size();
}

uint64_t OpLog::lost_replays() const { return graphs_.counts().lost; }

}  // namespace ttap
