#include "analyze/diff/ranks/placements.h"

#include <optional>

#include "core/json.h"

namespace ttap {

namespace {

constexpr size_t kMostMeshDims = 16;

// The member of an object, or null.
const SortedJson& member(const SortedJson& object, const char* name) {
  static const SortedJson null;
  const auto found = object.find(name);
  return found != object.end() ? *found : null;
}

std::optional<std::vector<int64_t>> numbers(const SortedJson& list) {
  if (!list.is_array() || list.size() > kMostMeshDims) return std::nullopt;
  std::vector<int64_t> values;
  for (const SortedJson& item : list) {
    if (!item.is_number_integer() || item < 0 || item > INT32_MAX) return std::nullopt;
    values.push_back(item.get<int64_t>());
  }
  return values;
}

std::optional<Spread> spread_of(const SortedJson& entry) {
  if (!entry.is_object()) return std::nullopt;
  auto mesh_shape = numbers(member(entry, "mesh_shape"));
  const SortedJson& placements = member(entry, "placements");
  if (!mesh_shape || mesh_shape->empty() || !placements.is_array() || placements.size() != mesh_shape->size())
    return std::nullopt;
  Spread spread;
  spread.mesh_shape = *std::move(mesh_shape);
  for (const SortedJson& placement : placements) {
    if (!placement.is_string()) return std::nullopt;
    spread.placements.push_back(placement.get<std::string>());
  }
  const SortedJson& coordinate = member(entry, "coordinate");
  spread.outside = coordinate.is_null();
  if (spread.outside) return spread;
  auto values = numbers(coordinate);
  if (!values || values->size() != spread.mesh_shape.size()) return std::nullopt;
  for (size_t dim = 0; dim < values->size(); ++dim)
    if ((*values)[dim] >= spread.mesh_shape[dim]) return std::nullopt;
  spread.coordinate = *std::move(values);
  return spread;
}

}  // namespace

Result<std::unordered_map<std::string, Spread>> read_placements(std::string_view text, uint32_t pass_number) {
  const SortedJson whole = parse_sorted_json(text);
  if (!whole.is_object()) return Error{.code = ErrorCode::kCorrupt, .message = "no JSON object"};
  std::unordered_map<std::string, Spread> spreads;
  const std::string pass = std::to_string(pass_number);
  for (const auto& [key, entry] : whole.items()) {
    if (!entry.is_object()) continue;
    const SortedJson& passes = member(entry, "passes");
    const SortedJson& other = passes.is_object() ? member(passes, pass.c_str()) : passes;
    if (auto spread = spread_of(other.is_object() ? other : entry)) spreads.emplace(key, *std::move(spread));
  }
  return spreads;
}

}  // namespace ttap
