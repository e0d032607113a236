#include "analyze/ops/op_facts.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <unordered_map>

#include "core/op_name.h"

namespace ttap {
namespace {

enum Fact : uint16_t {
  kView = 1,            // its result shows the memory of its argument
  kSame = 2,            // its one value is its first argument in every way
  kReshapes = 4,        // its values are those of its argument, in another shape or order
  kConverts = 8,        // the same values, perhaps in another dtype
  kUninitialised = 16,  // its result is memory that nothing was written to
  kOverwrites = 32,     // it gives every value of the argument that it writes to anew
  kRandom = 64,         // it draws random numbers
  kFromNothing = 128,   // its result depends on no value of its arguments
  kJumps = 256,         // its result is zero on one side of a threshold, and not on the other
  kOrders = 512,        // its result says in which order values stand, and those that are equal in any
};

int facts_of(std::string_view name) {
  static const std::unordered_map<std::string_view, int> kFacts = {
      // clang-format off
      {"alias", kView | kSame},
      {"alpha_dropout", kRandom},
      {"arange", kFromNothing},
      {"argsort", kOrders},
      {"as_strided", kView},
      {"bernoulli", kOverwrites | kRandom},
      {"binomial", kRandom},
      {"cauchy", kOverwrites | kRandom},
      {"chunk", kView},
      {"clone", kSame},
      {"_conj", kView},
      {"contiguous", kSame},
      {"copy", kOverwrites},
      {"detach", kView | kSame},
      {"diagonal", kView},
      {"dropout", kRandom},
      {"empty", kUninitialised},
      {"empty_like", kUninitialised},
      {"empty_permuted", kUninitialised},
      {"empty_strided", kUninitialised},
      {"expand", kView | kReshapes},
      {"expand_as", kView},
      {"exponential", kOverwrites | kRandom},
      {"eye", kFromNothing},
      {"feature_dropout", kRandom},
      {"fill", kOverwrites},
      {"flatten", kView | kReshapes},
      {"_foreach_copy", kOverwrites},
      {"_foreach_zero", kOverwrites | kFromNothing},
      {"full", kFromNothing},
      {"full_like", kFromNothing},
      {"_fused_dropout", kRandom},
      {"geometric", kOverwrites | kRandom},
      {"getitem", kView},  // of Dynamo
      {"hardshrink", kJumps},
      {"hardshrink_backward", kJumps},
      {"hardsigmoid_backward", kJumps},
      {"hardtanh_backward", kJumps},
      {"imag", kView},
      {"inductor_randint", kRandom | kFromNothing},
      {"inductor_random", kRandom | kFromNothing},
      {"inductor_seed", kFromNothing},
      {"inductor_seeds", kFromNothing},
      {"iota", kFromNothing},
      {"lift_fresh", kView | kSame},
      {"lift_fresh_copy", kSame},
      {"linspace", kFromNothing},
      {"log_normal", kOverwrites | kRandom},
      {"logspace", kFromNothing},
      {"movedim", kView},
      {"multinomial", kRandom},
      {"narrow", kView},
      {"native_dropout", kRandom},
      {"_neg_view", kView},
      {"new_empty", kUninitialised},
      {"new_empty_strided", kUninitialised},
      {"new_full", kFromNothing},
      {"new_ones", kFromNothing},
      {"new_zeros", kFromNothing},
      {"normal", kOverwrites | kRandom},
      {"normal_functional", kRandom},
      {"ones", kFromNothing},
      {"ones_like", kFromNothing},
      {"permute", kView | kReshapes},
      {"poisson", kRandom},
      {"rand", kRandom | kFromNothing},
      {"rand_like", kRandom | kFromNothing},
      {"randint", kRandom | kFromNothing},
      {"randint_like", kRandom | kFromNothing},
      {"randn", kRandom | kFromNothing},
      {"randn_like", kRandom | kFromNothing},
      {"random", kOverwrites | kRandom},
      {"randperm", kRandom | kFromNothing},
      {"real", kView},
      {"reshape", kView | kReshapes},
      {"_reshape_alias", kView | kReshapes},
      {"reshape_alias", kReshapes},
      {"resize", kUninitialised},
      {"_resize_output", kUninitialised},
      {"rrelu_with_noise", kRandom},
      {"_sample_dirichlet", kRandom},
      {"scalar_tensor", kFromNothing},
      {"select", kView},
      {"set", kOverwrites},
      {"slice", kView},
      {"softshrink_backward", kJumps},
      {"sort", kOrders},
      {"split", kView},
      {"split_with_sizes", kView},
      {"squeeze", kView | kReshapes},
      {"_standard_gamma", kRandom},
      {"swapaxes", kView},
      {"t", kView | kReshapes},
      {"tensor_split", kView},
      {"threshold_backward", kJumps},
      {"to", kConverts},
      {"topk", kOrders},
      {"to_copy", kConverts},
      {"_to_copy", kConverts},
      {"transpose", kView | kReshapes},
      {"tril_indices", kFromNothing},
      {"triu_indices", kFromNothing},
      {"unbind", kView},
      {"unflatten", kView | kReshapes},
      {"unfold", kView},
      {"uniform", kOverwrites | kRandom},
      {"unsafe_view", kView | kReshapes},
      {"_unsafe_view", kView | kReshapes},
      {"unsqueeze", kView | kReshapes},
      {"view", kView | kReshapes},
      {"view_as", kReshapes},
      {"view_as_complex", kView},
      {"view_as_real", kView},
      {"view_copy", kReshapes},
      {"wait_tensor", kSame},
      {"_wrap_tensor_autograd", kSame},
      {"zero", kOverwrites | kFromNothing},
      {"zeros", kFromNothing},
      {"zeros_like", kFromNothing},
      // clang-format on
  };
  const auto found = kFacts.find(name);
  return found == kFacts.end() ? 0 : found->second;
}

bool has_fact(std::string_view name, int facts) { return (facts_of(name) & facts) != 0; }

// Of those that inductor writes into the names of its kernels.
constexpr std::string_view kRandomParts[] = {"bernoulli", "native_dropout", "rand", "randint", "randn", "random"};

// Collectives that do not work in place.
bool has_separate_output(std::string_view collective) {
  constexpr std::string_view kNames[] = {"gather", "scatter", "recv", "recv_any_source", "irecv"};
  constexpr std::string_view kBeginnings[] = {"allgather", "_allgather", "reduce_scatter", "_reduce_scatter",
                                              "alltoall"};
  const auto begins = [&](std::string_view beginning) { return collective.starts_with(beginning); };
  return collective.ends_with("_out") || std::ranges::find(kNames, collective) != std::end(kNames) ||
         std::ranges::any_of(kBeginnings, begins);
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }

}  // namespace

std::string_view plain_op(std::string_view op) {
  std::string_view name = split_operator(op).name;
  if (name.size() > 1 && name.ends_with('_')) name.remove_suffix(1);
  return name;
}

bool is_view_op(std::string_view op) { return has_fact(plain_op(op), kView); }

bool is_same_op(std::string_view op) { return has_fact(plain_op(op), kSame); }

bool leaves_values_alone(std::string_view op) { return has_fact(plain_op(op), kSame | kReshapes | kConverts); }

bool jumps_at_thresholds(std::string_view op) { return has_fact(plain_op(op), kJumps); }

bool orders_ties_freely(std::string_view op) { return has_fact(plain_op(op), kOrders); }

bool takes_several_steps(std::string_view op) {
  constexpr std::array<std::string_view, 5> kParts{"norm_backward", "attention", "lstm", "gru", "rnn"};
  const std::string_view name = plain_op(op);
  return std::ranges::any_of(kParts, [&](std::string_view part) { return name.find(part) != name.npos; });
}

bool leaves_uninitialised(std::string_view op) { return has_fact(plain_op(op), kUninitialised); }

bool overwrites_what_it_writes(std::string_view op) {
  if (is_collective(op)) return has_separate_output(plain_op(op));
  const std::string_view overload = split_operator(op).overload;
  return overload == "out" || overload.ends_with("_out") || has_fact(plain_op(op), kOverwrites);
}

bool draws_random_numbers(std::string_view op) {
  const std::string_view name = plain_op(op);
  if (has_fact(name, kRandom)) return true;
  if (name.find("fused_") == std::string_view::npos) return false;
  return std::ranges::any_of(kRandomParts, [&](std::string_view part) {
    for (size_t at = name.find(part); at != std::string_view::npos; at = name.find(part, at + 1)) {
      const std::string_view rest = name.substr(at + part.size());
      const bool is_whole = at > 0 && name[at - 1] == '_' && (rest.empty() || rest[0] == '_');
      if (is_whole && !rest.starts_with("_backward")) return true;
    }
    return false;
  });
}

bool makes_from_nothing(std::string_view op) { return has_fact(plain_op(op), kFromNothing | kUninitialised); }

bool is_collective(std::string_view op) {
  const size_t end = op.find("::");
  const std::string_view library = end == std::string_view::npos ? std::string_view() : op.substr(0, end);
  return library == "c10d" || library == "c10d_functional" || library == "_c10d_functional" ||
         library == "_c10d_functional_autograd" || library == "symm_mem";
}

NonfiniteLiterals nonfinite_literals(std::string_view arguments) {
  NonfiniteLiterals found;
  for (size_t i = 0; i < arguments.size();) {
    if (const char quote = arguments[i]; quote == '\'' || quote == '"') {
      for (++i; i < arguments.size() && arguments[i] != quote; ++i) i += arguments[i] == '\\';
      ++i;
      continue;
    }
    size_t end = i;
    while (end < arguments.size() && is_word(arguments[end])) ++end;
    const std::string_view word = arguments.substr(i, end - i);
    const bool is_name = end < arguments.size() && arguments[end] == '=';  // nan_to_num(nan=0.0)
    if (!is_name && (word == "inf" || word == "infj")) found.inf = true;
    if (!is_name && (word == "nan" || word == "nanj")) found.nan = true;
    i = std::max(end, i + 1);
  }
  return found;
}

std::optional<double> literal_at(std::string_view arguments, size_t position) {
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= arguments.size(); ++i) {
    const char c = i < arguments.size() ? arguments[i] : ',';
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (c != ',' || (depth != 0 && i < arguments.size())) continue;
    if (position-- > 0) {
      begin = i + 1;
      continue;
    }
    std::string_view text = arguments.substr(begin, i - begin);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc{} && end == text.data() + text.size();
    return whole ? std::optional(value) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace ttap
