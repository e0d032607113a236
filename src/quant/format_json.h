#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "ttap/quant.h"

namespace ttap {

// What is nested deeper is no description of a quantized tensor; it would only exhaust the stack of code that walks it.
inline constexpr int kDeepestDescription = 8;

// A discarded value when the text is not JSON, or is deeper than that.
nlohmann::ordered_json parse_shallow(std::string_view text, int deepest = kDeepestDescription);

// As quant_format_from_json(), of JSON that was read already.
Result<QuantFormat> quant_format_from(const nlohmann::ordered_json& json);

}  // namespace ttap
