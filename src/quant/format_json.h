#pragma once

#include "core/json.h"
#include "ttap/quant.h"

namespace ttap {

// What is nested deeper is no description of a quantized tensor; it would only exhaust the stack of code that walks it.
inline constexpr int kDeepestDescription = 8;

// As quant_format_from_json(), of JSON that was read already.
Result<QuantFormat> quant_format_from(const Json& json);

}  // namespace ttap
