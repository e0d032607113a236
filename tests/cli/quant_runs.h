#pragma once

#include <filesystem>

// Runs for what quantizing does.
namespace ttap::test {

// Weights that take to quantizing differently: `calm` is spread evenly, `spiky` has a value in every block of 16 that
// is hundreds of times as large as the others, `wide` has rows of very different size. `tokens` are integers; of `kept`
// only the fingerprint was kept.
void weights(const std::filesystem::path& run);

// The same weights as a quantized model has them: `calm` and `spiky` as NVFP4, `wide` as MXFP8; and `other`, which the
// run above does not have.
void quantized_weights(const std::filesystem::path& run);

// What a dump of layers looks like: a tensor, and below it what the layer made of it.
void dumped(const std::filesystem::path& run);

}  // namespace ttap::test
