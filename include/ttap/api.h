#pragma once

// TTAP_API marks what the shared library exports. TTAP_HD marks what host and device code share.
#if defined(_WIN32)
#define TTAP_API
#else
#define TTAP_API __attribute__((visibility("default")))
#endif

#if defined(__CUDACC__)
#define TTAP_HD __host__ __device__
#else
#define TTAP_HD
#endif
