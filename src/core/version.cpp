#include "ttap/version.h"

namespace ttap {

const char* version() { return TTAP_VERSION; }

}  // namespace ttap
