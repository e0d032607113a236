#include "core/float_mode.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace ttap {
namespace {

#if defined(__x86_64__)
constexpr unsigned kDefaultMode = 0x1F80;  // exceptions masked, to nearest, subnormals kept
unsigned mode() { return _mm_getcsr(); }
void set_mode(unsigned mode) { _mm_setcsr(mode); }
#elif defined(__aarch64__)
constexpr unsigned kDefaultMode = 0;  // no traps, to nearest, subnormals and NaNs kept
unsigned mode() {
  unsigned long bits;
  asm volatile("mrs %0, fpcr" : "=r"(bits));
  return static_cast<unsigned>(bits);
}
void set_mode(unsigned mode) { asm volatile("msr fpcr, %0" ::"r"(static_cast<unsigned long>(mode)) : "memory"); }
#else
constexpr unsigned kDefaultMode = 0;
unsigned mode() { return kDefaultMode; }
void set_mode(unsigned) {}
#endif

}  // namespace

DefaultFloatMode::DefaultFloatMode() : saved_(mode()) {
  if (saved_ != kDefaultMode) set_mode(kDefaultMode);
}
DefaultFloatMode::~DefaultFloatMode() {
  if (saved_ != kDefaultMode) set_mode(saved_);
}

}  // namespace ttap
