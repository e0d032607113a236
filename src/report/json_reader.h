#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "ttap/result.h"

namespace ttap {

// JSON that somebody else wrote, its members in their order. Fails when it is not JSON (kCorrupt, with the place), or
// is deeper or wider than code that walks it can bear (kTooLarge).
Result<nlohmann::ordered_json> read_json(std::string_view text);

// On one line; bytes that are not UTF-8 become U+FFFD.
std::string json_text(const nlohmann::ordered_json& json);

}  // namespace ttap
