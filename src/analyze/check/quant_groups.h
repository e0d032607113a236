#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ttap/group.h"
#include "ttap/run.h"

// Quantized tensors among the records of a pass.
namespace ttap {

// The second group of a tensor that is stored both ways lies one step below it.
inline constexpr std::string_view kColumnwiseStep = "/columnwise";
// Where a dump keeps what it quantized, below the tensor itself.
inline constexpr std::string_view kQuantizedStep = "/quantized";

// `visit` is given the number of each quantized tensor, its key, and the steps to its parts. `source` is a Pass or a
// Side.
template <class Source, class Visit>
void for_each_group(const Source& source, const Visit& visit) {
  for (size_t i = 0; i < source.tensor_count(); ++i) {
    const TensorRecord record = source.tensor(i);
    if (record.group.empty()) continue;
    if (const auto description = group_description_from_json(record.group); description.ok())
      visit(i, record.key(), description->parts);
  }
}

// The format a tensor is quantized to; nothing for one that is not.
std::optional<QuantFormat> quantized_as(const TensorRecord& record);

// Whether both are quantized, and described alike.
bool same_format(const TensorRecord& a, const TensorRecord& b);

// Which records are only parts of a quantized tensor, by their numbers; empty where there is none.
std::vector<bool> parts_of_groups(const Pass& pass);

// What a quantized tensor was made from.
struct QuantTwin {
  const Pass* pass = nullptr;
  size_t tensor = 0;
};

// The high-precision twin of a quantized tensor: in `against`, when it is given, the tensor of the same key; in its own
// pass the tensor whose `/quantized` it is. One that is quantized itself, or has no bytes, is none.
std::optional<QuantTwin> find_quant_twin(const Pass& pass, size_t group, const Pass* against);

}  // namespace ttap
