#include "analyze/compare/ulp_percentile.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ttap {
namespace {

constexpr uint64_t kMostBins = uint64_t{1} << 18;
constexpr uint64_t kSampledFrom = uint64_t{1} << 17;  // fewer values are not worth a sample
constexpr size_t kSampleRun = 32;                     // neighbours taken together

UlpWindow window_of(uint64_t low, uint64_t high) {
  UlpWindow window{low, high, 0};
  while ((high - low) >> window.shift >= kMostBins) ++window.shift;
  return window;
}

}  // namespace

UlpWindow guess_window(const PairReader& reader, const UlpScale& scale) {
  const uint64_t values = reader.values();
  if (values < kSampledFrom) return window_of(1, std::clamp<uint64_t>(std::bit_ceil(values), 1024, 65536));
  const uint64_t runs = (values < (uint64_t{1} << 24) ? 16384 : 65536) / kSampleRun;
  const auto room = std::make_unique_for_overwrite<PairReader::Room>();
  std::vector<uint64_t> sample;
  sample.reserve(runs * kSampleRun);
  for (uint64_t run = 0; run < runs; ++run) {
    const uint64_t first = (values - kSampleRun) / runs * run / reader.parts() * reader.parts();
    const PairPiece piece = reader.read(first, kSampleRun, *room);
    for (size_t i = 0; i < piece.count; ++i)
      if (std::isfinite(piece.a[i]) && std::isfinite(piece.b[i]))
        sample.push_back(ulp_distance(scale, piece.a[i], piece.b[i]));
  }
  if (sample.empty()) return window_of(1, kMostBins);
  // Eight standard deviations of the rank, as neighbours are alike.
  const auto size = static_cast<double>(sample.size());
  const double margin = 8 * std::sqrt(0.99 * 0.01 / size);
  const auto quantile = [&](double share) {
    const auto rank = static_cast<std::ptrdiff_t>(std::clamp(share * size, 0.0, size - 1));
    std::ranges::nth_element(sample, sample.begin() + rank);
    return sample[static_cast<size_t>(rank)];
  };
  const uint64_t low = std::max<uint64_t>(1, quantile(0.99 - margin));
  return window_of(low, std::max(low, quantile(0.99 + margin)));
}

void add(UlpCounts& to, const UlpCounts& from) {
  to.below += from.below;
  to.zeros += from.zeros;
  for (size_t bin = 0; bin < to.bins.size(); ++bin) to.bins[bin] += from.bins[bin];
  to.kept.insert(to.kept.end(), from.kept.begin(), from.kept.end());
  to.all_kept = to.all_kept && from.all_kept;
}

std::variant<uint64_t, UlpWindow> narrow(const UlpWindow& window, UlpCounts& counts, uint64_t rank, uint64_t most) {
  // The zeros that are no pairs stand before all others.
  rank += counts.zeros;
  if (rank <= counts.below) {
    if (window.low == 1) return uint64_t{0};
    return window_of(1, window.low - 1);
  }
  uint64_t seen = counts.below;
  if (window.shift != 0 && counts.all_kept && rank - seen <= counts.kept.size()) {
    const auto place = counts.kept.begin() + static_cast<std::ptrdiff_t>(rank - seen - 1);
    std::ranges::nth_element(counts.kept, place);
    return window.low + *place;
  }
  for (size_t bin = 0; bin < counts.bins.size(); ++bin) {
    seen += counts.bins[bin];
    if (rank > seen) continue;
    const uint64_t first = window.low + (uint64_t{bin} << window.shift);
    if (window.shift == 0) return first;
    return window_of(first, std::min(window.high, first + ((uint64_t{1} << window.shift) - 1)));
  }
  if (window.high >= most) return most;
  return window_of(window.high + 1, most);
}

}  // namespace ttap
