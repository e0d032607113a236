#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ttap/api.h"

namespace ttap {

// A number of bytes as people write it: `4096`, or with K, M, G or T, which are powers of 1024: `256M`.
TTAP_API std::optional<uint64_t> parse_byte_size(std::string_view text);

}  // namespace ttap
