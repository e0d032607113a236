#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "analyze/diff/sides/side.h"

namespace ttap {

// In which precision a program lets f32 be multiplied. Unless told otherwise, PyTorch lets cuDNN round the factors of a
// convolution to TF32, which has the exponents of f32 and 10 bits; products of matrices where it is asked to.
class Fp32Precision {
 public:
  // `side` must outlive it.
  explicit Fp32Precision(const Side& side);

  bool is_reduced() const { return !by_device_.empty(); }
  // What the factors are rounded to of which a call made this f32 value: f16, which has as many bits as TF32, or bf16.
  // Nothing where it multiplies f32 as it is, or nothing.
  std::optional<DType> of(uint32_t record) const;
  // As PyTorch calls that of the call which has this f32 value, also as an argument: "tf32", "bf16", "ieee".
  std::string name_of(uint32_t record) const;

 private:
  struct Names {
    std::string matmul = {}, conv = {};  // empty: ieee
  };
  std::string reduced(uint32_t record) const;

  const Side& side_;
  std::map<std::string, Names, std::less<>> by_device_;
};

}  // namespace ttap
