#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "capture/copy_crew.h"
#include "core/logical_copy.h"
#include "fingerprint/fingerprinter.h"

namespace ttap {

// Copies one tensor and takes its fingerprint on the way, while the bytes are in the cache. Large ones are shared with
// the crew. The fingerprint is bit for bit that of fingerprint(), and the hash is that of the copy even when the
// program writes to the tensor meanwhile.
class TensorCopy {
 public:
  // `longest_part` is the most that one take() will be given. Allocates, so make it before anything waits for it;
  // nothing below can fail.
  TensorCopy(CopyCrew& crew, const TensorView& tensor, const LogicalCopy& source, uint64_t longest_part, bool sketch);

  // The next `bytes` of the tensor in C order, into `target` (a multiple of 64) unless that is null. All parts but the
  // last are multiples of kHashBlockBytes.
  void take(uint64_t bytes, std::byte* target);
  // After the last part. Once.
  Fingerprint finish();

 private:
  uint64_t share(uint64_t bytes, std::byte* target);
  void add(ChunkWorker& worker, uint64_t first, uint64_t bytes, std::byte* target) const;
  void gather(ChunkWorker& worker, uint64_t first, uint64_t bytes) const;

  CopyCrew& crew_;
  const std::byte* data_;
  const LogicalCopy& source_;
  DType dtype_;
  bool sketch_;
  uint64_t total_;
  bool past_caches_;
  uint64_t done_ = 0;
  ChunkSums sums_;                 // of the whole chunks so far
  std::vector<ChunkSums> chunks_;  // of the part at work
  std::mutex mutex_;               // guards worker_ while helpers are at work
  ChunkWorker worker_;
};

}  // namespace ttap
