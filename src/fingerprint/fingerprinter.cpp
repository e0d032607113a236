#include "fingerprint/fingerprinter.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstring>

#include "fingerprint/sketch.h"

namespace ttap {
namespace {

// Whether a sketch takes all of the values.
bool all_count(const StatsPart& stats) {
  return (stats.nan | stats.pos_inf | stats.neg_inf) == 0 && stats.max < kSketchLimit && stats.min > -kSketchLimit;
}

}  // namespace

void merge(ChunkSums& into, const ChunkSums& chunk) {
  merge(into.stats, chunk.stats);
  for (uint32_t i = 0; i < kSketchBuckets; ++i) into.sketch[i] += chunk.sketch[i];
}

ChunkWorker::ChunkWorker(DType dtype, const FingerprintOptions& options)
    : dtype_(dtype),
      kernels_(&kernels_for(options.path)),
      stats_kernel_(options.statistics ? stats_kernel(*kernels_, dtype) : nullptr),
      sketch_kernel_(options.statistics && options.sketch ? sketch_kernel(*kernels_, dtype) : nullptr) {
  if (!options.statistics) return;
  if (stats_kernel_ == nullptr) {
    histogram_.emplace();
  } else {
    const bool complex = dtype_info(dtype).kind == DTypeKind::kComplex;
    value_size_ = complex ? size_of(dtype) / 2 : size_of(dtype);
  }
}

template <bool COPY>
void ChunkWorker::add_blocks(std::span<const std::byte> bytes, uint64_t first_block, std::byte* to) {
  const std::byte* data = bytes.data();
  for (size_t rest = bytes.size(); rest > 0; ++first_block) {
    const size_t size = std::min(rest, kHashBlockBytes);
    HashPair sums = COPY ? kernels_->hash_and_copy(data, size / kHashStripeBytes, to)
                         : kernels_->hash(data, size / kHashStripeBytes);
    if (const size_t odd = size % kHashStripeBytes; odd != 0) {
      // The last stripe, zero-padded; its keys are those of its place.
      alignas(64) std::byte stripe[kHashStripeBytes] = {};
      const size_t start = size - odd;
      std::memcpy(stripe, data + start, odd);
      if constexpr (COPY) std::memcpy(to + start, stripe, odd);
      for (uint32_t j = 0; j < kHashStripeBytes / 8; ++j) {
        uint32_t word[2];
        std::memcpy(word, stripe + 8 * size_t{j}, sizeof word);
        const uint32_t place = static_cast<uint32_t>(start / 8) + j;
        sums.a += hash_word(word[0], word[1], kHashKeys.key, place);
        sums.b += hash_word(word[0], word[1], kHashKeys.key + kHashKeyShift, place);
      }
    }
    const HashPair digest = hash_mix(sums, first_block);
    digests_.a += digest.a;
    digests_.b += digest.b;
    if (stats_kernel_ != nullptr) {
      const StatsPart block = stats_kernel_(data, size / value_size_, has_near_ ? &near_ : nullptr);
      if (block.finite != 0) {
        near_ = block.mean;
        has_near_ = true;
      }
      ttap::merge(chunk_.stats, block);
      if (sketch_kernel_ != nullptr) add_to_sketch(data, size, first_block, block);
    }
    data += size;
    if constexpr (COPY) to += size;
    rest -= size;
  }
  if (histogram_) histogram_->add(bytes.data(), bytes.size());
}

void ChunkWorker::add_to_sketch(const std::byte* data, size_t size, uint64_t block, const StatsPart& stats) {
  alignas(64) std::byte copy[kHashBlockBytes];
  const size_t lines = (size + kSketchLineBytes - 1) / kSketchLineBytes;
  const bool counts = all_count(stats);
  if (!counts || size % kSketchLineBytes != 0) {
    std::memcpy(copy, data, size);
    std::memset(copy + size, 0, lines * kSketchLineBytes - size);
    if (!counts) clear_beyond_limit(copy, size, dtype_);
    data = copy;
  }
  const size_t vectors = lines > 1 ? kSketchLineVectors : (size + kSketchVectorBytes - 1) / kSketchVectorBytes;
  sketch_kernel_(data, lines, vectors, block, chunk_.sketch.data());
}

void ChunkWorker::add(std::span<const std::byte> bytes, uint64_t first_block) {
  add_blocks<false>(bytes, first_block, nullptr);
}

void ChunkWorker::add_and_copy(std::span<const std::byte> bytes, uint64_t first_block, std::byte* to) {
  add_blocks<true>(bytes, first_block, to);
  hwy::FlushStream();  // stores past the caches are not ordered by what publishes them to other threads
}

ChunkSums ChunkWorker::end_chunk() {
  const ChunkSums ended = chunk_;
  chunk_ = {};
  has_near_ = false;
  return ended;
}

void ChunkWorker::merge(const ChunkWorker& other) {
  digests_.a += other.digests_.a;
  digests_.b += other.digests_.b;
  if (histogram_) histogram_->merge(*other.histogram_);
}

Fingerprint ChunkWorker::finish(uint64_t bytes, const ChunkSums& sums) const {
  const HashPair hash = hash_mix(digests_, bytes);
  return {{hash.a, hash.b},
          to_stats(histogram_ ? histogram_->stats(dtype_) : sums.stats),
          sums.sketch,
          sketch_kernel_ != nullptr};
}

Fingerprinter::Fingerprinter(DType dtype, const FingerprintOptions& options)
    : worker_(dtype, options), element_size_(size_of(dtype)) {}

void Fingerprinter::update(std::span<const std::byte> piece) {
  TTAP_CHECK(bytes_ % kHashBlockBytes == 0);  // otherwise the piece before was the last
  const DefaultFloatMode mode;
  while (!piece.empty()) {
    const size_t size = std::min<size_t>(piece.size(), kChunkBytes - bytes_ % kChunkBytes);
    worker_.add(piece.first(size), bytes_ / kHashBlockBytes);
    bytes_ += size;
    piece = piece.subspan(size);
    if (bytes_ % kChunkBytes == 0) merge(sums_, worker_.end_chunk());
  }
}

Fingerprint Fingerprinter::finish() {
  TTAP_CHECK(bytes_ % element_size_ == 0);
  const DefaultFloatMode mode;
  merge(sums_, worker_.end_chunk());
  return worker_.finish(bytes_, sums_);
}

}  // namespace ttap
