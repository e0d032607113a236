#pragma once

#include <filesystem>

// Runs of ops for `ttap check`, made as the op source would.
namespace ttap::test {

// A probability becomes 0, its logarithm -Inf, and the loss; the backward inherits it. There is a mask of -Inf besides.
void log_of_zero(const std::filesystem::path& run);

// Pass 0 has a mask and nothing else; in pass 1 the mask covers a whole row, so softmax makes NaN of it.
void masked_row(const std::filesystem::path& run);

// The forward is finite, and its backward divides by 0.
void root_of_zero(const std::filesystem::path& run);

// A weight holds NaN, and 30 calls pass it on; of the first the other argument was not recorded.
void many_heirs(const std::filesystem::path& run);

// Nothing is wrong; of two tensors beside the ops one is near overflow, one underflows.
void only_masks(const std::filesystem::path& run);

// Two ranks: the second one makes NaN, and the all-reduce of gradients brings it to the first.
void spread_nan(const std::filesystem::path& run);

// The first of these ranks alone.
void lone_rank(const std::filesystem::path& run);

}  // namespace ttap::test
