#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/foreign/foreign.h"
#include "ttap/record.h"
#include "ttap/result.h"

// Quantized tensors of a file in another format. Their parts are tensors of it as any others; what they are together
// is a JSON list beside these: [{"name", "call", "role", "path", "dtype", "shape", "description"}, …]. It stands in
//   .safetensors  the metadata, as `ttap.groups`
//   .pt           an entry `ttap.groups.json` of the archive, which torch.load does not look at
//   .npy          the index of the folder, as `groups`
namespace ttap {

inline constexpr std::string_view kGroupsNote = "ttap.groups";
inline constexpr std::string_view kGroupsEntry = "ttap.groups.json";
// How deep the list may be nested.
inline constexpr int kDeepestNote = 10;

std::string make_groups_note(std::span<const TensorRecord> groups);
// Adds them to the tensors, each with its description as `group`, and without bytes. kCorrupt when it is no such list.
Status add_groups(std::string_view json, ForeignTensors& tensors);
// The same of JSON that was read already, and is not nested deeper than a list of descriptions may be.
Status add_groups(const nlohmann::ordered_json& list, ForeignTensors& tensors);

}  // namespace ttap
