#pragma once

// Needs DLPack's header (Debian: libdlpack-dev); the rest of TensorTap's headers do not.
#include <dlpack/dlpack.h>

#include "ttap/tensor_view.h"

namespace ttap {

// A view of a DLPack tensor in memory the CPU can read. It points into `tensor`, which must outlive it.
TTAP_API Result<TensorView> view_of(const DLTensor& tensor);

}  // namespace ttap
