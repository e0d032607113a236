#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace ttap {

// Items 0 … count − 1 on several threads: work(worker, item) at any time, take(worker, item) one at a time and in the
// order of the items, so that what is summed up does not depend on the threads. There is a worker per thread.
template <class Worker, class Work, class Take>
void work_in_order(uint64_t count, std::vector<Worker>& workers, Work&& work, Take&& take) {
  std::atomic<uint64_t> next = 0;
  std::mutex mutex;
  std::condition_variable taken;
  uint64_t turn = 0;
  const auto serve = [&](Worker& worker) {
    for (uint64_t item = next++; item < count; item = next++) {
      work(worker, item);
      std::unique_lock lock(mutex);
      taken.wait(lock, [&] { return turn == item; });
      take(worker, item);
      ++turn;
      taken.notify_all();
    }
  };
  std::vector<std::thread> threads;
  try {
    for (size_t i = 1; i < workers.size(); ++i) threads.emplace_back([&, i] { serve(workers[i]); });
  } catch (const std::system_error&) {
    // No more threads to be had: those there are do the work.
  }
  serve(workers.front());
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ttap
