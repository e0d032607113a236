#include <fmt/format.h>

#include "ttap/fingerprint.h"

namespace ttap {

std::string to_string(const Hash128& hash) { return fmt::format("{:016x}{:016x}", hash.high, hash.low); }

}  // namespace ttap
