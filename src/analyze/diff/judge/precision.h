#pragma once

#include <vector>

#include "analyze/diff/sides/side.h"

namespace ttap {

// For each tensor of a side the coarsest of f64, f32, f16 and bf16 that its value passed through: a bf16 value that was
// cast up to f32 has the precision of bf16. Where the recording says what a call used (ops), by that; of modules by
// what went into the call, what was made inside it, and what the call around it was given. Its own dtype for all other
// dtypes: a format of 8 bits has scales, and is judged by itself. And its own where fewer than a quarter of the values
// of the side have 16 bits: one module that computes in bf16 is not how the side runs, but what is to be found. What
// was multiplied in TF32 (Fp32Precision) has the precision of f16, which has as many bits.
std::vector<DType> precisions_of(const Side& side);

}  // namespace ttap
