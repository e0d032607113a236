#pragma once

#include <memory>

#include "cuda/runtime.h"

namespace ttap::cuda {

// The graph being captured on `stream` keeps the object, and all that was made of the graph does. When they are gone
// it is only put aside: that happens on a thread of the driver's, where nothing of CUDA may be freed.
Status keep_until_graph_is_gone(Stream stream, std::shared_ptr<void> object);

// Lets go of what was put aside. May wait for a device: not for the model's thread.
void free_what_graphs_released();

}  // namespace ttap::cuda
