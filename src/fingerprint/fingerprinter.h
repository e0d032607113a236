#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/float_mode.h"
#include "fingerprint/byte_histogram.h"
#include "fingerprint/kernels.h"
#include "fingerprint/stats_part.h"
#include "ttap/fingerprint.h"

namespace ttap {

// The unit of work of a thread. Statistics are merged chunk by chunk in order, so neither the number of threads nor
// the size of the pieces shows in them.
inline constexpr uint64_t kChunkBytes = uint64_t{1} << 20;

// What depends on the order in which it is added up.
struct ChunkSums {
  StatsPart stats;  // empty for one-byte formats
  Sketch sketch = {};
};
void merge(ChunkSums& into, const ChunkSums& chunk);

// What one thread makes of the chunks it is given, in whatever order: sums that commute are kept here, those of each
// chunk are handed out.
class ChunkWorker {
 public:
  ChunkWorker(DType dtype, const FingerprintOptions& options);

  // The next bytes of the current chunk; block number `first_block` of the tensor begins them. All but the last bytes
  // of a tensor come in whole blocks.
  void add(std::span<const std::byte> bytes, uint64_t first_block);
  // The same, and they are copied to `to`, a multiple of 64, past the caches if this CPU can. The hash is that of the
  // copy, even while another thread writes to `bytes`.
  void add_and_copy(std::span<const std::byte> bytes, uint64_t first_block, std::byte* to);
  // The sums of the chunk; the next add() begins another.
  ChunkSums end_chunk();

  // Takes over what another worker summed.
  void merge(const ChunkWorker& other);
  Fingerprint finish(uint64_t bytes, const ChunkSums& sums) const;

 private:
  template <bool COPY>
  void add_blocks(std::span<const std::byte> bytes, uint64_t first_block, std::byte* to);
  void add_to_sketch(const std::byte* data, size_t size, uint64_t block, const StatsPart& stats);

  DType dtype_;
  const Kernels* kernels_;
  StatsKernel stats_kernel_;
  SketchKernel sketch_kernel_;
  size_t value_size_ = 1;
  HashPair digests_;
  std::optional<ByteHistogram> histogram_;
  ChunkSums chunk_;
  double near_ = 0;
  bool has_near_ = false;
};

// A fingerprint of bytes that come in pieces, e.g. of a tensor larger than the staging buffer. Equal, bit for bit, to
// fingerprint() of the whole.
class Fingerprinter {
 public:
  explicit Fingerprinter(DType dtype, const FingerprintOptions& options = {});  // works on the caller's thread only

  // The next logical bytes in C order. Every piece but the last is a multiple of kHashBlockBytes.
  void update(std::span<const std::byte> piece);
  // After the last piece. Once.
  Fingerprint finish();

 private:
  ChunkWorker worker_;
  ChunkSums sums_;
  size_t element_size_;
  uint64_t bytes_ = 0;
};

}  // namespace ttap
