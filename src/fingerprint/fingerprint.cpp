#include "ttap/fingerprint.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#include "core/logical_copy.h"
#include "fingerprint/fingerprinter.h"

namespace ttap {
namespace {

// Strided elements are gathered this many bytes at a time, small enough to stay in the first cache.
constexpr size_t kGatherBytes = 4 * kHashBlockBytes;
// Below this, starting threads costs more than they save.
constexpr uint64_t kThreadedBytes = uint64_t{4} << 20;

// Calls take(span) with the logical bytes [first, first + count), in order and in whole blocks but for the end.
template <class Take>
void for_each_piece(const TensorView& view, const LogicalCopy& source, uint64_t first, uint64_t count, Take take) {
  if (source.contiguous()) {
    take(std::span(static_cast<const std::byte*>(view.data) + first, count));
    return;
  }
  alignas(64) std::byte buffer[kGatherBytes];
  for (uint64_t done = 0; done < count;) {
    const size_t size = std::min<uint64_t>(kGatherBytes, count - done);
    source.copy((first + done) / source.element_size(), size / source.element_size(), buffer);
    take(std::span(buffer, size));
    done += size;
  }
}

Fingerprint with_threads(const TensorView& view, const LogicalCopy& source, uint64_t bytes, unsigned threads,
                         const FingerprintOptions& options) {
  const uint64_t chunks = (bytes + kChunkBytes - 1) / kChunkBytes;
  std::vector<ChunkSums> sums(chunks);
  std::vector<ChunkWorker> workers(std::min<uint64_t>(threads, chunks), ChunkWorker(view.dtype, options));
  std::atomic<uint64_t> next{0};
  const auto work = [&](ChunkWorker& worker) {
    const DefaultFloatMode mode;
    for (uint64_t chunk; (chunk = next.fetch_add(1, std::memory_order_relaxed)) < chunks;) {
      uint64_t at = chunk * kChunkBytes;
      for_each_piece(view, source, at, std::min(kChunkBytes, bytes - at), [&](std::span<const std::byte> piece) {
        worker.add(piece, at / kHashBlockBytes);
        at += piece.size();
      });
      sums[chunk] = worker.end_chunk();
    }
  };
  {
    std::vector<std::jthread> running;
    running.reserve(workers.size() - 1);
    try {
      for (size_t i = 1; i < workers.size(); ++i) running.emplace_back(work, std::ref(workers[i]));
    } catch (const std::system_error&) {
      // No more threads to be had: those that run, and this one, do the work.
    }
    work(workers[0]);
  }
  ChunkSums total;
  for (const ChunkSums& chunk : sums) merge(total, chunk);
  for (size_t i = 1; i < workers.size(); ++i) workers[0].merge(workers[i]);
  return workers[0].finish(bytes, total);
}

}  // namespace

Fingerprint fingerprint(const TensorView& view, const FingerprintOptions& options) {
  const DefaultFloatMode mode;
  const LogicalCopy source(view);
  const uint64_t bytes = source.elements() * source.element_size();
  if (options.threads != 1 && bytes >= kThreadedBytes) {
    const unsigned threads = options.threads == 0 ? std::thread::hardware_concurrency() : options.threads;
    if (threads > 1) return with_threads(view, source, bytes, threads, options);
  }
  Fingerprinter whole(view.dtype, options);
  for_each_piece(view, source, 0, bytes, [&](std::span<const std::byte> piece) { whole.update(piece); });
  return whole.finish();
}

}  // namespace ttap
