#pragma once

#include <cstdint>
#include <variant>

#include "analyze/compare/pair_reader.h"

// The exact 99th percentile of ULP distances in bounded memory: distances are told apart in a window only, and a wrong
// or coarse window is followed by a better one over the same data.
namespace ttap {

// ⌈0.99 · finite⌉: the distance of this rank, counted from 1, is the percentile.
inline uint64_t percentile_rank(uint64_t finite) { return finite - finite / 100; }

// Where the percentile probably lies, from a sample of the pairs.
UlpWindow guess_window(const PairReader& reader, const UlpScale& scale);

// What somebody else counted in the same window.
void add(UlpCounts& to, const UlpCounts& from);

// The distance of that rank, or the window it certainly lies in. `counts` are of all pairs in `window`, `most` is the
// largest distance there is. Changes the order of what was kept.
std::variant<uint64_t, UlpWindow> narrow(const UlpWindow& window, UlpCounts& counts, uint64_t rank, uint64_t most);

}  // namespace ttap
