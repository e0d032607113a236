#include "analyze/diff/role_flow.h"

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
  for (const std::string_view gradient : {"grad_out", "grad_in"})
    if (role.starts_with(gradient)) return {gradient == "grad_out", 1 + repetition(role.substr(gradient.size()))};
  return {role == "in", 0};
}

}  // namespace ttap
