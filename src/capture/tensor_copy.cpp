#include "capture/tensor_copy.h"

#include <algorithm>

#include "store/segment/segment_file.h"

namespace ttap {
namespace {

// Strided elements that are not copied are gathered this much at a time: enough for many rows of a transposed matrix,
// not too much for a stack.
constexpr uint64_t kGatherBytes = 16 * kHashBlockBytes;

}  // namespace

TensorCopy::TensorCopy(CopyCrew& crew, const TensorView& tensor, const LogicalCopy& source, uint64_t longest_part,
                       bool sketch)
    : crew_(crew),
      data_(static_cast<const std::byte*>(tensor.data)),
      source_(source),
      dtype_(tensor.dtype),
      sketch_(sketch),
      total_(source.elements() * source.element_size()),
      // What goes to the disk from where it lies is not read by a processor again.
      past_caches_(source.contiguous() && total_ >= kDirectBytes),
      worker_(dtype_, {.sketch = sketch_}) {
  const uint64_t longest = std::min(longest_part, total_);
  if (longest > kChunkBytes) chunks_.resize((longest + kChunkBytes - 1) / kChunkBytes);
}

void TensorCopy::take(uint64_t bytes, std::byte* target) {
  const DefaultFloatMode mode;
  const uint64_t end = done_ + bytes;
  if (done_ % kChunkBytes == 0 && bytes > kChunkBytes) {
    const uint64_t shared = share(bytes, target);
    done_ += shared;
    if (target != nullptr) target += shared;
  }
  while (done_ < end) {
    const uint64_t size = std::min(end - done_, kChunkBytes - done_ % kChunkBytes);
    add(worker_, done_, size, target);
    done_ += size;
    if (target != nullptr) target += size;
    if (done_ % kChunkBytes == 0) merge(sums_, worker_.end_chunk());
  }
}

// The whole chunks at the front of a part, and the last one of the tensor however long it is. Returns their bytes.
uint64_t TensorCopy::share(uint64_t bytes, std::byte* target) {
  const uint64_t start = done_;
  const bool ends = start + bytes == total_;
  const uint64_t count = (bytes + (ends ? kChunkBytes - 1 : 0)) / kChunkBytes;
  crew_.share(count, [&](CopyCrew::Chunks& chunks) {
    const DefaultFloatMode mode;
    ChunkWorker worker(dtype_, {.sketch = sketch_});
    while (const auto chunk = chunks.next()) {
      const uint64_t offset = *chunk * kChunkBytes;
      add(worker, start + offset, std::min(kChunkBytes, bytes - offset), target == nullptr ? nullptr : target + offset);
      chunks_[*chunk] = worker.end_chunk();
    }
    const std::lock_guard lock(mutex_);
    worker_.merge(worker);
  });
  for (uint64_t i = 0; i < count; ++i) merge(sums_, chunks_[i]);
  return std::min(bytes, count * kChunkBytes);
}

void TensorCopy::add(ChunkWorker& worker, uint64_t first, uint64_t bytes, std::byte* target) const {
  const uint64_t block = first / kHashBlockBytes;
  const std::span<const std::byte> in_place(data_ + first, source_.contiguous() ? bytes : 0);
  if (target == nullptr) return source_.contiguous() ? worker.add(in_place, block) : gather(worker, first, bytes);
  if (past_caches_) return worker.add_and_copy(in_place, block, target);
  // A strided chunk in one go, since a transposed matrix is read by the cache line when many rows are wanted.
  source_.copy(first / source_.element_size(), bytes / source_.element_size(), target);
  worker.add({target, bytes}, block);
}

void TensorCopy::gather(ChunkWorker& worker, uint64_t first, uint64_t bytes) const {
  alignas(64) std::byte gathered[kGatherBytes];
  for (const uint64_t end = first + bytes; first < end; first += kGatherBytes) {
    const uint64_t size = std::min(kGatherBytes, end - first);
    source_.copy(first / source_.element_size(), size / source_.element_size(), gathered);
    worker.add({gathered, size}, first / kHashBlockBytes);
  }
}

Fingerprint TensorCopy::finish() {
  const DefaultFloatMode mode;
  merge(sums_, worker_.end_chunk());
  return worker_.finish(total_, sums_);
}

}  // namespace ttap
