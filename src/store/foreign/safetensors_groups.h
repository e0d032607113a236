#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/foreign/foreign.h"
#include "ttap/record.h"
#include "ttap/result.h"

// Quantized tensors of a .safetensors file. Their parts are tensors of it as any others; what they are together stands
// in its metadata, as a JSON list: [{"name", "call", "role", "path", "dtype", "shape", "description"}, …].
namespace ttap {

inline constexpr std::string_view kGroupsNote = "ttap.groups";

std::string make_groups_note(std::span<const TensorRecord> groups);
// Each with its description as `group`, and without bytes.
Result<std::vector<ForeignTensor>> parse_groups_note(std::string_view json);

}  // namespace ttap
