#pragma once

#include "analyze/check/origin_hints.h"
#include "ttap/run.h"

namespace ttap {

// What origin_hints() wants to know of the call that `tensor` is a result of. It refers to the pass.
CallFacts facts_of_call(const Pass& pass, uint32_t event, size_t tensor);

// The argument at `position` in the text of a call's arguments, where that is a number: 2 in "%0, 2, alpha=1" at 1.
std::optional<double> literal_at(std::string_view arguments, size_t position);

}  // namespace ttap
