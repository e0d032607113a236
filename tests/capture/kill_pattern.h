#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/mix64.h"

// What the killed program records, and what the test expects to find: everything follows from pass and tensor number,
// and a scale. Its staging memory is as many MiB as the scale says.
namespace ttap {

inline constexpr uint32_t kKillTensors = 24;

inline size_t kill_elements(uint32_t pass, uint32_t tensor, uint32_t scale) {
  const uint64_t random = mix64(uint64_t{pass} << 32 | tensor);
  constexpr size_t kSizes[] = {0, 1, 17, 1024, 5000, 40'000, 150'000};  // the last is larger than the staging memory
  return kSizes[random % std::size(kSizes)] * scale;
}

inline std::vector<uint64_t> kill_values(uint32_t pass, uint32_t tensor, uint32_t scale) {
  std::vector<uint64_t> values(kill_elements(pass, tensor, scale));
  uint64_t state = mix64(uint64_t{tensor} << 32 | pass);
  for (uint64_t& value : values) value = state += 0x9E3779B97F4A7C15u;
  return values;
}

inline std::string kill_name(uint32_t tensor) { return "tensor/" + std::to_string(tensor); }

}  // namespace ttap
