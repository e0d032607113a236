#pragma once

#include <cstdint>

#include "cuda/runtime/runtime.h"

// A runtime made of ordinary memory, linked in place of CUDA's, in which graphs can be captured and replayed. What is
// put on a stream is done at once by the calling thread, unless a graph is captured: then each replay does it.
namespace ttap::cuda::graphs {

inline constexpr uintptr_t kSomeStream = 16;
inline Stream some_stream() { return reinterpret_cast<Stream>(kSomeStream); }

// Everything from here to end_capture() becomes a graph, whose number is returned.
uint64_t begin_capture();
void end_capture();
void replay(uint64_t graph);
// What the graph kept is released as the driver does it.
void destroy(uint64_t graph);

int64_t allocations();  // that were not freed

}  // namespace ttap::cuda::graphs
