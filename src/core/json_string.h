#pragma once

#include <string>
#include <string_view>

#include "ttap/api.h"

namespace ttap {

// Text as a JSON string, quotes included; bytes that are not UTF-8 become U+FFFD.
TTAP_API std::string json_string(std::string_view text);

}  // namespace ttap
