#pragma once

#include "cuda/runtime/runtime.h"

namespace ttap::torch_source {

// PyTorch's current CUDA streams. Found by name in the PyTorch that is loaded: its CUDA headers are not in every build
// of it, and this one extension serves CPU and CUDA builds alike.
class CudaStreams {
 public:
  // Whether the PyTorch that is loaded has CUDA, and says its streams in a way that is known here.
  static bool found();
  // Of the calling thread.
  static cuda::Stream current(int device);
};

}  // namespace ttap::torch_source
