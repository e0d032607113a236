#pragma once

#include <string>
#include <vector>

#include "sample_run.h"
#include "ttap/group.h"

namespace ttap::test {

// Quantizes values and adds them to a pass as a recorder does: the parts, then the record that stands for the values.
// Of values that were rotated first there are no statistics.
inline void add_group(SamplePass& pass, std::string_view name, std::vector<int64_t> shape,
                      const std::vector<float>& values, const QuantFormat& format, std::string_view role,
                      const std::string& path) {
  const EncodedTensor encoded = encode({values.data(), DType::kF32, shape, {}}, format).value();
  const QuantGroup group = encoded.group();
  GroupDescription description{.format = encoded.format};
  const auto part = [&](std::string_view step, const TensorView& view) {
    const auto* bytes = static_cast<const std::byte*>(view.data);
    const std::string at = append_path(path, step);
    pass.tensor(name, view.dtype, {view.shape.begin(), view.shape.end()}, {bytes, bytes + byte_count(view)},
                {.role = role, .path = at});
    description.parts.emplace_back(step);
  };
  part(kPayloadPart, group.payload);
  if (group.scale) part(kScalePart, *group.scale);
  if (group.global) part(kGlobalScalePart, *group.global);
  if (group.zero_point) part(kZeroPointPart, *group.zero_point);
  std::vector<float> decoded(values.size());
  TTAP_CHECK(decode(group, DType::kF32, decoded.data()).ok());
  const std::string text = to_json(description);
  const Level level = format.rotated ? Level::kMeta : Level::kFingerprint;
  pass.tensor(name, std::move(shape), decoded, {.role = role, .path = path, .level = level, .group = text});
}

}  // namespace ttap::test
