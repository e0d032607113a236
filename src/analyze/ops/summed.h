#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ttap/record.h"

// What a value was summed from, by its operator: a sum is rounded beside its terms, not beside what is left of them.
namespace ttap {

// An argument or a result of a call.
struct SummedTensor {
  std::string_view path = {};  // "/0"; of a list its place in the call only
  std::span<const int64_t> shape = {};
  double count = 0;
  double rms = 0;
  double max_abs = 0;
};
std::optional<SummedTensor> summed_tensor(std::string_view path,
                                          const TensorRecord& record);  // none without statistics

struct SummedCall {
  std::string_view op = {};    // aten::add.Tensor
  std::string_view text = {};  // its arguments
  std::span<const SummedTensor> given = {};
  std::span<const SummedTensor> made = {};
  SummedTensor result = {};  // the one of those that is asked about
};

// Sizes are root mean squares over the elements of the result.
struct Summed {
  double scale = 0;  // of the sum of the magnitudes of all terms
  double terms = 1;  // that make one element
  // How many terms are added before the partial sum is rounded to the dtype of the result, however narrow; 0: all.
  double rounded_every = 0;
  // What each of SummedCall::given has in that, where they are added; empty where they are multiplied, and each has
  // all.
  std::vector<double> shares = {};
};

// Nothing for an operator that does not add, or is not known. Statistics tell no more than about how large the terms
// are: they are taken to be spread evenly.
std::optional<Summed> summed_in(const SummedCall& call);

}  // namespace ttap
