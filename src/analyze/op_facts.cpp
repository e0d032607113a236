#include "analyze/op_facts.h"

#include <algorithm>
#include <cctype>
#include <span>

#include "core/op_name.h"

namespace ttap {
namespace {

constexpr std::string_view kViewOps[] = {
    "alias",          "as_strided",     "chunk",   "detach",           "diagonal",
    "expand",         "expand_as",      "flatten", "lift_fresh",       "movedim",
    "narrow",         "permute",        "real",    "reshape",          "select",
    "slice",          "split",          "squeeze", "swapaxes",         "t",
    "tensor_split",   "transpose",      "unbind",  "unflatten",        "unfold",
    "unsqueeze",      "unsafe_view",    "view",    "view_as_real",     "_conj",
    "_neg_view",      "_reshape_alias", "imag",    "split_with_sizes", "_unsafe_view",
    "view_as_complex"};

constexpr std::string_view kUninitialised[] = {"empty",     "empty_like",        "empty_permuted", "empty_strided",
                                               "new_empty", "new_empty_strided", "resize",         "_resize_output"};

constexpr std::string_view kOverwriting[] = {"bernoulli", "cauchy",     "copy",          "exponential",  "fill",
                                             "geometric", "log_normal", "normal",        "random",       "set",
                                             "uniform",   "zero",       "_foreach_copy", "_foreach_zero"};

constexpr std::string_view kRandom[] = {"bernoulli",        "binomial",
                                        "cauchy",           "dropout",
                                        "exponential",      "feature_dropout",
                                        "geometric",        "log_normal",
                                        "multinomial",      "native_dropout",
                                        "normal",           "normal_functional",
                                        "poisson",          "rand",
                                        "rand_like",        "randint",
                                        "randint_like",     "randn",
                                        "randn_like",       "random",
                                        "randperm",         "rrelu_with_noise",
                                        "uniform",          "_fused_dropout",
                                        "alpha_dropout",    "inductor_random",
                                        "inductor_randint", "_sample_dirichlet",
                                        "_standard_gamma"};
// Of those that inductor writes into the names of its kernels.
constexpr std::string_view kRandomParts[] = {"bernoulli", "native_dropout", "rand", "randint", "randn", "random"};

constexpr std::string_view kFromNothing[] = {"arange",
                                             "eye",
                                             "full",
                                             "full_like",
                                             "inductor_randint",
                                             "inductor_random",
                                             "inductor_seed",
                                             "inductor_seeds",
                                             "linspace",
                                             "logspace",
                                             "new_full",
                                             "new_ones",
                                             "new_zeros",
                                             "ones",
                                             "ones_like",
                                             "rand",
                                             "rand_like",
                                             "randint",
                                             "randint_like",
                                             "randn",
                                             "randn_like",
                                             "randperm",
                                             "scalar_tensor",
                                             "tril_indices",
                                             "triu_indices",
                                             "zeros",
                                             "zeros_like",
                                             "zero",
                                             "_foreach_zero",
                                             "iota"};

bool holds(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }

}  // namespace

std::string_view plain_op(std::string_view op) {
  std::string_view name = split_operator(op).name;
  if (name.size() > 1 && name.ends_with('_')) name.remove_suffix(1);
  return name;
}

bool is_view_op(std::string_view op) { return holds(kViewOps, plain_op(op)); }

bool leaves_uninitialised(std::string_view op) { return holds(kUninitialised, plain_op(op)); }

bool overwrites_what_it_writes(std::string_view op) {
  const std::string_view overload = split_operator(op).overload;
  return overload == "out" || overload.ends_with("_out") || holds(kOverwriting, plain_op(op));
}

bool draws_random_numbers(std::string_view op) {
  const std::string_view name = plain_op(op);
  if (holds(kRandom, name)) return true;
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

bool makes_from_nothing(std::string_view op) { return holds(kFromNothing, plain_op(op)) || leaves_uninitialised(op); }

bool is_collective(std::string_view op) {
  const size_t end = op.find("::");
  const std::string_view library = end == std::string_view::npos ? std::string_view() : op.substr(0, end);
  return library == "c10d" || library == "c10d_functional" || library == "_c10d_functional" ||
         library == "_c10d_functional_autograd";
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

}  // namespace ttap
