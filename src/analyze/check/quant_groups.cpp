#include "analyze/check/quant_groups.h"

#include <string>
#include <unordered_set>

#include "analyze/values/real_values.h"

namespace ttap {
namespace {

bool cut(std::string& path, std::string_view step) {
  if (!path.ends_with(step)) return false;
  path.resize(path.size() - step.size());
  return true;
}

std::optional<QuantTwin> at(const Pass& pass, const Key& key) {
  const auto found = pass.find(key);
  if (!found) return std::nullopt;
  const TensorRecord record = pass.tensor(*found);
  if (!record.group.empty() || !record.has_bytes || !is_real(record.dtype)) return std::nullopt;
  return QuantTwin{&pass, *found};
}

}  // namespace

std::vector<bool> parts_of_groups(const Pass& pass) {
  std::unordered_set<std::string> parts;
  for_each_group(pass, [&](size_t, Key key, const std::vector<std::string>& steps) {
    const std::string own = key.path;
    for (const std::string& step : steps) {
      key.path = append_path(own, step);
      parts.insert(to_string(key));
    }
  });
  if (parts.empty()) return {};
  std::vector<bool> found(pass.tensor_count());
  for (size_t i = 0; i < found.size(); ++i) found[i] = parts.contains(to_string(pass.tensor(i).key()));
  return found;
}

std::optional<QuantTwin> find_quant_twin(const Pass& pass, size_t group, const Pass* against) {
  Key key = pass.tensor(group).key();
  if (against != nullptr)
    if (auto twin = at(*against, key)) return twin;
  const bool columnwise = cut(key.path, kColumnwiseStep);
  if (against != nullptr && columnwise)
    if (auto twin = at(*against, key)) return twin;
  if (!cut(key.path, kQuantizedStep)) return std::nullopt;
  if (against != nullptr)
    if (auto twin = at(*against, key)) return twin;
  return at(pass, key);
}

std::optional<QuantFormat> quantized_as(const TensorRecord& record) {
  if (record.group.empty()) return std::nullopt;
  auto description = group_description_from_json(record.group);
  return description.ok() ? std::optional(std::move(description->format)) : std::nullopt;
}

bool same_format(const TensorRecord& a, const TensorRecord& b) {
  if (a.group.empty() || b.group.empty()) return false;
  const auto format_a = quantized_as(a), format_b = quantized_as(b);
  return format_a && format_b && to_json(*format_a) == to_json(*format_b);
}

}  // namespace ttap
