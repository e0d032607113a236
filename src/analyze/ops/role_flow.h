#pragma once

#include <cstdint>
#include <string_view>

namespace ttap {

// Which way a tensor of a role flows: into a call or out of it, and in which turn of the call. The forward is turn 0;
// its recomputation for the backward (`recompute`, `recompute_in`) turn 1; the backward (`grad_out` goes in, `grad_in`
// comes out) turn 2, a second one (`grad_out_2`) turn 3, and so on. Parameters go in (`param`), and so do the operands
// of a quantized layer (`activation`, `weight`; in its backward `gradient`, of which `wgrad` and `dgrad` are made).
struct RoleFlow {
  bool input = false;
  uint32_t turn = 0;
};
RoleFlow flow_of(std::string_view role);

bool goes_in(std::string_view role);  // into a call that is not made a second time for the backward

// What the forward of a call was given: arguments and parameters.
bool is_argument(std::string_view role);

// A call's parameters go in, and say nothing of its other inputs.
bool is_parameter(std::string_view role);

// The state of the random generator that a call draws from: kept to make the call again, and no value of the model.
inline constexpr std::string_view kGeneratorRole = "generator";

}  // namespace ttap
