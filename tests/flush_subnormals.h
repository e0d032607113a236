#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace ttap {

// While it lives, the thread takes subnormal numbers for zero, as after torch.set_flush_denormal(True).
class FlushSubnormals {
 public:
  FlushSubnormals() : saved_(mode()) { set_mode(saved_ | kFlush); }
  ~FlushSubnormals() { set_mode(saved_); }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

  static bool is_on() { return (mode() & kFlush) == kFlush; }

 private:
#if defined(__x86_64__)
  static constexpr uint64_t kFlush = 0x8040;  // of MXCSR: flush to zero, denormals are zeros
  static uint64_t mode() { return _mm_getcsr(); }
  static void set_mode(uint64_t mode) { _mm_setcsr(static_cast<unsigned>(mode)); }
#elif defined(__aarch64__)
  static constexpr uint64_t kFlush = 1 << 24;  // of FPCR: FZ
  static uint64_t mode() {
    uint64_t mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void set_mode(uint64_t mode) { asm volatile("msr fpcr, %0" ::"r"(mode) : "memory"); }
#else
#error "say here how this CPU flushes subnormal numbers"
#endif

  uint64_t saved_;
};

}  // namespace ttap
