#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "capture/graph_pass.h"
#include "capture/process.h"

namespace ttap {

// The graphs that one recording has taps in, and the thread that takes their replays. The thread asks memory,
// never the device: a replay needs nobody's help to run, and nobody waits for it.
class GraphPasses {
 public:
  // Takes the oldest replay of a graph; false when there is none. Called by one thread at a time.
  using Take = std::function<bool(GraphPass& graph)>;
  GraphPasses(Take take, const cuda::GraphMemory::RingOptions& ring, uint64_t most_copied_bytes)
      : take_(std::move(take)), ring_(ring), most_copied_bytes_(most_copied_bytes) {}
  ~GraphPasses() { stop(); }

  Result<GraphPass*> of_capture(int device, cuda::Stream stream);
  Status end_capture(cuda::Stream stream);
  // By its number, while calls can still be captured into it; then null.
  GraphPass* under_way(uint64_t number) const;

  // Takes the replays that have come so far.
  void drain();
  // The same for the last time; replays after it record nothing.
  void stop();

  using Counts = Report::Graphs;
  Counts counts() const;

 private:
  void run();
  bool take_one_each();
  bool take_all();
  void forget_what_is_gone();

  const Take take_;
  const cuda::GraphMemory::RingOptions ring_;
  const uint64_t most_copied_bytes_;
  const unsigned forks_at_start_ = fork_count().load();

  mutable std::mutex mutex_;  // guards what follows
  struct Key {
    uint64_t capture;
    int device;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::unique_ptr<GraphPass>> captures_;  // under way
  Counts ended_;                                        // of graphs that are gone
  bool stopped_ = false;
  std::condition_variable wake_;
  std::thread thread_;

  mutable std::mutex reading_;  // held while replays are recorded; taken before mutex_
  std::vector<std::unique_ptr<GraphPass>> finished_;
};

}  // namespace ttap
