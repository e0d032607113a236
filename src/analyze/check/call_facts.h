#pragma once

#include "analyze/check/origin_hints.h"
#include "ttap/run.h"

namespace ttap {

// What origin_hints() wants to know of the call that `tensor` is a result of. It refers to the pass.
CallFacts facts_of_call(const Pass& pass, uint32_t event, size_t tensor);

}  // namespace ttap
