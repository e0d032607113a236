#pragma once

#include <atomic>
#include <memory>

#include "cuda/runtime/memory.h"
#include "cuda/runtime/runtime.h"

namespace ttap::cuda {

// The graph being captured on `stream` keeps the object, and all that was made of the graph does. When they are gone it
// is only put aside, and `gone` is set: that happens on a thread of the driver's, which must neither call CUDA nor wait
// for Python.
Status keep_until_graph_is_gone(Stream stream, std::shared_ptr<void> object,
                                std::shared_ptr<std::atomic<bool>> gone = nullptr);

// Lets go of such objects, and frees all memory that was put aside, unless a graph is captured. For whoever has just
// ended something; not for the model's path.
TTAP_API void free_what_was_put_aside();

}  // namespace ttap::cuda
