#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "analyze/diff/sides/side.h"

namespace ttap {

// Which tensors of a pass are parameters, buffers, gradients or the state of an optimizer: what the notes of its calls
// say, by the number of the tensor. A tensor that a call updates with the gradient of a parameter is that parameter's
// state.
class TensorNames {
 public:
  explicit TensorNames(const Side& side);

  // "b.0.n1.weight", "gradient of b.0.n1.weight", "exp_avg of b.0.n1.weight", "state of b.0.n1.weight"; empty for any
  // other tensor.
  std::string name_of(uint32_t record) const;
  // Whether the record is what a call wrote to a tensor that it was given.
  bool is_update(uint32_t record) const;

 private:
  void read_notes(uint32_t event, std::string_view notes);
  void find_state(uint32_t event);
  uint32_t object_of(uint32_t record) const;

  const Side& side_;
  std::map<uint32_t, std::string> names_;      // by the number of a tensor
  std::map<uint32_t, std::string> gradients_;  // likewise: the parameter
};

// The parameter in such a name: what stands after "of".
std::string_view parameter_in(std::string_view name);

}  // namespace ttap
