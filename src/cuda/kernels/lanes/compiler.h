#pragma once

// Annotations for nvcc of code that the host compiles too.
#if defined(__CUDACC__)
#define TTAP_UNROLL _Pragma("unroll")
// Out of line: for what is long and rarely needed, since instructions that are jumped over have to be fetched too.
#define TTAP_APART __noinline__
#else
#define TTAP_UNROLL
#define TTAP_APART
#endif
