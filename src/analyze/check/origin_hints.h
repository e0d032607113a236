#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ttap/fingerprint.h"

// What the statistics of a call's arguments say about why it returned NaN or Inf.
namespace ttap {

// A tensor that a call was given or returned.
struct CallTensor {
  std::string_view path;  // of an argument: `/0`
  DType dtype = DType::kF32;
  Stats stats;
};

struct CallFacts {
  std::string op;                        // `aten::log`
  std::vector<CallTensor> arguments;     // those whose values are known
  CallTensor result;                     // the one that holds NaN or Inf
  std::optional<double> second_literal;  // the argument at position 1 where that is a number: an exponent
};

// One sentence each, the surest first; none where the statistics do not tell.
std::vector<std::string> origin_hints(const CallFacts& call);

// The largest finite value of a format; nothing for integers.
std::optional<double> largest_of(DType dtype);

}  // namespace ttap
