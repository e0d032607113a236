#include "core/float_mode.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace ttap {

#if defined(__x86_64__)

namespace {
constexpr unsigned kDefaultMode = 0x1F80;  // exceptions masked, to nearest, subnormals kept
}

DefaultFloatMode::DefaultFloatMode() : saved_(_mm_getcsr()) {
  if (saved_ != kDefaultMode) _mm_setcsr(kDefaultMode);
}
DefaultFloatMode::~DefaultFloatMode() {
  if (saved_ != kDefaultMode) _mm_setcsr(saved_);
}

#else

DefaultFloatMode::DefaultFloatMode() : saved_(0) {}
DefaultFloatMode::~DefaultFloatMode() = default;

#endif

}  // namespace ttap
