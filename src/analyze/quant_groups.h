#pragma once

#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "ttap/group.h"
#include "ttap/run.h"

// Quantized tensors among the records of a pass.
namespace ttap {

// The second group of a tensor that is stored both ways lies one step below it.
inline constexpr std::string_view kColumnwiseStep = "/columnwise";
// Where a dump keeps what it quantized, below the tensor itself.
inline constexpr std::string_view kQuantizedStep = "/quantized";

// Which records are only parts of a quantized tensor, by their numbers; empty where there is none. `source` is a Pass
// or a Side.
template <class Source>
std::vector<bool> parts_of_groups(const Source& source) {
  std::unordered_set<std::string> parts;
  const size_t count = source.tensor_count();
  for (size_t i = 0; i < count; ++i) {
    const TensorRecord record = source.tensor(i);
    if (record.group.empty()) continue;
    const auto description = group_description_from_json(record.group);
    if (!description.ok()) continue;
    Key key = record.key();
    const std::string own = key.path;
    for (const std::string& step : description->parts) {
      key.path = append_path(own, step);
      parts.insert(to_string(key));
    }
  }
  if (parts.empty()) return {};
  std::vector<bool> found(count);
  for (size_t i = 0; i < count; ++i) found[i] = parts.contains(to_string(source.tensor(i).key()));
  return found;
}

// What a quantized tensor was made from.
struct QuantTwin {
  const Pass* pass = nullptr;
  size_t tensor = 0;
};

// The high-precision twin of a quantized tensor: in `against`, when it is given, the tensor of the same key; in its own
// pass the tensor whose `/quantized` it is. One that is quantized itself, or has no bytes, is none.
std::optional<QuantTwin> find_quant_twin(const Pass& pass, size_t group, const Pass* against);

}  // namespace ttap
