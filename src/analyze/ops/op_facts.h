#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

// What is known of operators by their names, as far as it matters to where a value came from. `op` is the operator with
// its library and overload: `aten::add_.Tensor`.
namespace ttap {

// Its name without library, overload and the `_` of the in-place form: `add`.
std::string_view plain_op(std::string_view op);

// Its result shows the memory of its argument; nothing is computed.
bool is_view_op(std::string_view op);
// Its one value is its first argument in every way: `detach`, `clone`.
bool is_same_op(std::string_view op);
// The values of its result are those of its argument, perhaps in another shape, order or dtype: `view`, `t`, `to`.
bool leaves_values_alone(std::string_view op);
// Its result jumps where an argument passes a threshold, to zero or from it: the derivative of relu.
bool jumps_at_thresholds(std::string_view op);
// Its result says in which order values stand, and equal ones may stand in any: `sort`, `topk`.
bool orders_ties_freely(std::string_view op);
// It rounds more than once on the way to its result: attention, the backward of a norm.
bool takes_several_steps(std::string_view op);
// Its result is memory that nothing has been written to: any value may stand there.
bool leaves_uninitialised(std::string_view op);
// Whether a call gives every value of the arguments that it writes to anew, so what stood in them does not matter.
bool overwrites_what_it_writes(std::string_view op);
// Its result is another one each time, unless the generator is in the same state; or it is a fused kernel that has one
// of these in its name.
bool draws_random_numbers(std::string_view op);
// Its result depends on no value of its arguments, only on their shapes and its numbers: `ones_like`, `arange`, `rand`.
bool makes_from_nothing(std::string_view op);
// It exchanges values with other processes, so its result depends on more than its own arguments.
bool is_collective(std::string_view op);

// The literals among the arguments of a call that are not finite: `%0, -inf`, `fill_value=nan`.
struct NonfiniteLiterals {
  bool inf = false;
  bool nan = false;
};
NonfiniteLiterals nonfinite_literals(std::string_view arguments);

// The argument at `position` in the text of a call's arguments, where that is a number: 2 in "%0, 2, alpha=1" at 1.
std::optional<double> literal_at(std::string_view arguments, size_t position);

}  // namespace ttap
