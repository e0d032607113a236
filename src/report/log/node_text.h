#pragma once

#include <string>

#include "store/graph/graph_notes.h"

namespace ttap {

// What a node calls, as graphs print it: `aten.add.Tensor`, `placeholder[x]`, `call_module[layers.0]`, `view`.
std::string called_text(const NodeNotes& node);

// Behind the name of a graph: ` (aot forward, step 3)`.
std::string graph_text(const GraphNotes& graph);

// The line of the program that a node stands for, as a frame of a stack.
std::string frame_of(const NodeNotes& node);

}  // namespace ttap
