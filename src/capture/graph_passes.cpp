#include "capture/graph_passes.h"

#include <algorithm>
#include <chrono>

#include "capture/process.h"

namespace ttap {
namespace {

constexpr std::chrono::microseconds kShortestPause{100};
constexpr std::chrono::microseconds kLongestPause{4000};

}  // namespace

Result<GraphPass*> GraphPasses::of_capture(int device, cuda::Stream stream) {
  const uint64_t capture = cuda::capture_number(stream);
  if (capture == 0)
    return Error{.code = ErrorCode::kUnsupported, .message = "no CUDA graph is being captured on this stream"};
  const std::lock_guard lock(mutex_);
  if (stopped_) return Error{.code = ErrorCode::kInvalidArgument, .message = "the recording has ended"};
  std::unique_ptr<GraphPass>& pass = captures_[{capture, device}];
  if (pass == nullptr) {
    TTAP_ASSIGN(std::shared_ptr<cuda::GraphMemory> memory, cuda::GraphMemory::create(device, stream));
    pass = std::make_unique<GraphPass>(std::move(memory), most_copied_bytes_);
  }
  return pass.get();
}

GraphPass* GraphPasses::under_way(uint64_t number) const {
  if (number == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, pass] : captures_)
    if (pass != nullptr && pass->number() == number) return pass.get();
  return nullptr;
}

Status GraphPasses::end_capture(cuda::Stream stream) {
  const uint64_t capture = cuda::capture_number(stream);
  Status status;
  std::vector<std::unique_ptr<GraphPass>> ended;
  {
    const std::lock_guard lock(mutex_);
    for (auto each = captures_.begin(); each != captures_.end();) {
      // A capture that failed never ends: what is left of it goes when the next one does.
      const bool this_one = each->first.capture == capture;
      if (!this_one && each->second != nullptr && !each->second->is_done()) {
        ++each;
        continue;
      }
      if (this_one && each->second != nullptr) {
        if (Status finished = each->second->finish(stream, ring_); !finished.ok()) {
          ++ended_.failed;
          status = std::move(finished);
        }
        if (each->second->memory().is_finished()) ended.push_back(std::move(each->second));
      }
      each = captures_.erase(each);
    }
    if (!ended.empty() && !thread_.joinable() && !stopped_) {
      const SignalsBlocked blocked;
      thread_ = std::thread([this] { run(); });
    }
  }
  if (ended.empty()) return status;
  const std::lock_guard reading(reading_);
  for (auto& pass : ended) finished_.push_back(std::move(pass));
  wake_.notify_all();
  return status;
}

// One of each graph, as near to the order of replays as can be known.
bool GraphPasses::take_one_each() {
  const std::lock_guard reading(reading_);
  bool any = false;
  for (const auto& pass : finished_) any |= take_(*pass);
  forget_what_is_gone();
  return any;
}

bool GraphPasses::take_all() {
  bool any = false;
  while (take_one_each()) any = true;  // who wants the lock gets it in between
  return any;
}

void GraphPasses::forget_what_is_gone() {
  const auto gone =
      std::stable_partition(finished_.begin(), finished_.end(), [](const auto& p) { return !p->is_done(); });
  if (gone == finished_.end()) return;
  const std::lock_guard lock(mutex_);
  for (auto each = gone; each != finished_.end(); ++each) {
    while (take_(**each)) {
    }
    ++ended_.graphs;
    ended_.replays += (*each)->replays();
    ended_.lost += (*each)->lost_replays();
    ended_.not_copied += (*each)->not_copied();
  }
  finished_.erase(gone, finished_.end());
}

void GraphPasses::run() {
  auto pause = kShortestPause;
  while (true) {
    const bool any = take_all();
    pause = any ? kShortestPause : std::min(pause * 2, kLongestPause);
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, pause, [&] { return stopped_; });
    if (stopped_) return;
  }
}

void GraphPasses::drain() { take_all(); }

void GraphPasses::stop() {
  if (fork_count().load() != forks_at_start_) {  // the thread stayed with the parent, perhaps with the locks
    if (thread_.joinable()) thread_.detach();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    stopped_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  take_all();
  const std::lock_guard reading(reading_);
  for (const auto& pass : finished_) pass->memory().close();
}

GraphPasses::Counts GraphPasses::counts() const {
  const std::scoped_lock lock(reading_, mutex_);
  Counts counts = ended_;
  for (const auto& pass : finished_) {
    ++counts.graphs;
    counts.replays += pass->replays();
    counts.lost += pass->lost_replays();
    counts.not_copied += pass->not_copied();
  }
  return counts;
}

}  // namespace ttap
