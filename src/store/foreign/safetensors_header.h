#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ttap/dtype.h"
#include "ttap/result.h"

namespace ttap {

// One tensor as the header of a .safetensors file states it; nothing is checked against anything yet.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  // in the order of the text
  std::vector<std::pair<std::string, std::string>> metadata;
};

// The JSON of a header: exactly the fields of the format, each once, names each once. `offset` is where the
// text stands in the file, for errors (kCorrupt).
Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, uint64_t offset);

// The format's name for a dtype, e.g. "F8_E4M3"; nothing for c128.
std::optional<std::string_view> safetensors_name(DType dtype);
std::optional<DType> dtype_from_safetensors_name(std::string_view name);

}  // namespace ttap
