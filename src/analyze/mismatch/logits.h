#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "analyze/diff/tokens/request_texts.h"
#include "analyze/diff/tokens/row_layout.h"
#include "analyze/diff/tokens/token_passes.h"

namespace ttap {

// log Σ exp(x), for any x.
double log_sum_exp(const std::vector<double>& values);

// The logits that the passes of one run recorded: the last floating point result of each that has a row per token, or
// per token that is to be sampled, and a column for every token of the vocabulary.
class RunLogits {
 public:
  // `passes` live longer. `key`: of the result to take instead; empty for the rule above. `least_width`: more than any
  // token.
  RunLogits(const TokenPasses& passes, const std::string& key, int64_t least_width);

  bool empty() const { return key_.empty(); }
  const std::string& key() const { return key_; }  // of the first pass that has them
  DType dtype() const { return dtype_; }
  bool has(const TokenPlace& place) const { return row_in_tensor(place).has_value(); }

  // The tensor of one pass; rows can be taken from several threads.
  struct Tensor {
    SideBytes bytes = {};
    uint64_t width = 0;
  };
  Result<Tensor> read(uint32_t pass) const;
  void take_row(const Tensor& tensor, const TokenPlace& place, std::vector<double>& row) const;

 private:
  struct Found {
    uint32_t tensor = 0;
    RowLayout layout = {};
  };
  std::optional<uint32_t> row_in_tensor(const TokenPlace& place) const;

  const TokenPasses* passes_;
  std::vector<std::optional<Found>> found_;  // per pass
  std::string key_;
  DType dtype_ = DType::kF32;
};

}  // namespace ttap
