#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "analyze/diff/result/verdict.h"
#include "analyze/diff/sides/side.h"

// What a call may add to a value by itself. Where both sides gave it the same bits, whatever differs in its result was
// made in it, and all that is allowed is rounding: far less than what may arrive through twenty layers.
namespace ttap {

// How much happens in a call.
enum class CallSize : uint8_t {
  kOneRounding,   // an operator, or a module of PyTorch's that is one: its result is rounded once
  kFewRoundings,  // a module without others inside
  kModule,        // a module with others inside, which all made the same bits: what is left is its own code
  kCode,          // several steps at once: a kernel, attention, what was not recorded
};

// Whether sums are made in a dtype: f32 and f64, and rounded there as often as they are long.
bool sums_are_made_in(DType dtype);

// How much of an error lies along the values, from −1 to 1.
double along_values(const Measures& m);

// Why rounding does not explain the difference of a pair that was compared by its values; empty when it does.
//   size       one value, or all together, is further off than the roundings of such a call come to. Of f32 and f64, in
//              which sums are made, the tolerance of the dtype has the say
//   proportion the error is in proportion to the value: a factor
//   bias       the error has one sign: something was added
//   place      one row, channel or block has nearly all of the error
//   zeros      a fourth of the values are zero on one side only
//   order      the same values stand in another order, or have other signs
// `rounded_to` is the coarsest dtype that its call rounds to, at least its own.
std::string beyond_rounding(const Side& a, const Side& b, const TensorDiff& tensor, CallSize size, DType rounded_to);

// Whether the error of a value is in proportion to it, and more so than that of what it was made of, however small it
// is. That alone may be the rounding of a factor; where a setting of the call is not the same, it is what that does.
bool is_in_proportion(const Side& a, const Side& b, const TensorDiff& tensor,
                      std::span<const TensorDiff* const> made_of);

// How much larger the error of a value is than what it was made of and one rounding explain. `made_of` are identical or
// measured. Of code between modules, which rounds several times, nothing where what came in is smaller than that, or in
// proportion to the values.
std::optional<double> growth_of(const Side& a, const Side& b, const TensorDiff& tensor,
                                std::span<const TensorDiff* const> made_of, bool by_code);

// How errors grow in other calls of the same kind.
struct UsualGrowth {
  uint64_t calls = 0;
  double most = 0;
};

// What an error that grew says of a call, beside others of its kind.
struct Unexplained {
  Verdict verdict = Verdict::kIdentical;  // diverged; inconclusive where the error only stands out among others
  std::string reason = {};                // empty when it is explained
};
Unexplained beyond_usual_growth(double growth, const UsualGrowth& usual);

// Of a value that was made of values which differ within tolerance, also in another dtype: whether those and rounding
// explain its error, as beyond_rounding() tells it.
Unexplained beyond_what_came_in(const Side& a, const Side& b, const TensorDiff& tensor, CallSize size, DType rounded_to,
                                std::span<const TensorDiff* const> made_of);

}  // namespace ttap
