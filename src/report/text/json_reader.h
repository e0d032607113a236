#pragma once

#include <string_view>

#include "core/json.h"
#include "ttap/result.h"

namespace ttap {

// JSON that somebody else wrote, its members in their order. Fails when it is not JSON (kCorrupt, with the place), or
// is deeper or wider than code that walks it can bear (kTooLarge).
Result<Json> read_json(std::string_view text);

}  // namespace ttap
