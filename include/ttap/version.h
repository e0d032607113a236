#pragma once

#include "ttap/api.h"

namespace ttap {

// "0.1.0"
TTAP_API const char* version();

}  // namespace ttap
