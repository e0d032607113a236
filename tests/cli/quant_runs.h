#pragma once

#include <filesystem>

// Runs for what quantizing does.
namespace ttap::test {

// Weights that take to quantizing differently: `calm` is spread evenly, `spiky` has a value in every block of 16 that
// is hundreds of times as large as the others, `wide` has rows of very different size. `tokens` are integers; of `kept`
// only the fingerprint was kept.
void weights(const std::filesystem::path& run);

}  // namespace ttap::test
