#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ttap/api.h"
#include "ttap/quant.h"
#include "ttap/result.h"
#include "ttap/run.h"

// Quantized tensors of a pass. Such a tensor has a record at its own key that stands for its values, without bytes and
// with a description (TensorRecord::group), and below its path one for each of its plain parts: `fc@param/weight` has
// `fc@param/weight/payload`, `fc@param/weight/scale`, ….
namespace ttap {

// The steps to the parts.
inline constexpr std::string_view kPayloadPart = "payload";
inline constexpr std::string_view kScalePart = "scale";
inline constexpr std::string_view kGlobalScalePart = "global_scale";
inline constexpr std::string_view kZeroPointPart = "zero_point";

// A description: {"format": what to_json() makes of the format, "parts": ["payload", "scale", …]}.
struct GroupDescription {
  QuantFormat format = {};
  std::vector<std::string> parts = {};
};
TTAP_API std::string to_json(const GroupDescription& description);
// kCorrupt when it is not one. Parts of other names are kept.
TTAP_API Result<GroupDescription> group_description_from_json(std::string_view json);

// The parts by the numbers of their records, and what they make.
struct GroupParts {
  QuantFormat format = {};
  std::vector<int64_t> shape = {};  // of the values
  DType dtype = DType::kF32;        // that the tensor says it has
  size_t payload = 0;
  std::optional<size_t> scale = {};
  std::optional<size_t> global = {};
  std::optional<size_t> zero_point = {};

  std::array<std::optional<size_t>, 4> all() const { return {payload, scale, global, zero_point}; }
};

// kInvalidArgument when the record is of no quantized tensor; kNotFound when a part is missing, which is named.
TTAP_API Result<GroupParts> group_of(const Pass& pass, size_t index);

// Its tensors, checked. The views live as long as the pass and the parts. kNotRecorded when a part has no bytes.
TTAP_API Result<QuantGroup> read_group(const Pass& pass, const GroupParts& parts);

// The values of a record, whether it has bytes or its parts have.
struct Values {
  TensorView view = {};
  bool decoded = false;
  // What the view points into when they were decoded; else it points into the pass.
  std::vector<std::byte> owned = {};
  std::vector<int64_t> shape = {};

  Values() = default;
  Values(Values&&) = default;
  Values& operator=(Values&&) = default;
};

// As they were recorded, or decoded to the dtype of the record. kNotRecorded when they are neither there nor to be had
// from a group: also for one whose values were rotated before they were quantized, as those are not the tensor's.
TTAP_API Result<Values> read_values(const Pass& pass, size_t index);
// Whether read_values() has something to read; what is wrong with the bytes only reading shows.
TTAP_API bool has_values(const Pass& pass, size_t index);

}  // namespace ttap
