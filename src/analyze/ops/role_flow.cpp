#include "analyze/ops/role_flow.h"

#include <charconv>

namespace ttap {
namespace {

constexpr std::string_view kRecompute = "recompute";

// The number behind `grad_out_`: 1 when there is none.
uint32_t repetition(std::string_view suffix) {
  if (!suffix.starts_with('_')) return 1;
  uint32_t number = 1;
  const char* const end = suffix.data() + suffix.size();
  const auto [stop, error] = std::from_chars(suffix.data() + 1, end, number);
  return error == std::errc{} && stop == end && number > 0 ? number : 1;
}

}  // namespace

RoleFlow flow_of(std::string_view role) {
  if (role.starts_with(kRecompute)) {
    role.remove_prefix(kRecompute.size());
    return {role == "_in", 1};
  }
  struct Gradient {
    std::string_view role;
    bool input;
  };
  constexpr Gradient kGradients[] = {
      {"grad_out", true}, {"grad_in", false}, {"gradient", true}, {"wgrad", false}, {"dgrad", false}};
  for (const Gradient& gradient : kGradients)
    if (role.starts_with(gradient.role)) return {gradient.input, 1 + repetition(role.substr(gradient.role.size()))};
  return {role == "in" || role == "activation" || is_parameter(role), 0};
}

bool goes_in(std::string_view role) { return flow_of(role).input && !role.starts_with("recompute"); }

bool is_argument(std::string_view role) {
  const RoleFlow flow = flow_of(role);
  return flow.input && flow.turn == 0;
}

bool is_parameter(std::string_view role) { return role == "param" || role == "weight"; }

}  // namespace ttap
