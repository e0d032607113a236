#pragma once

#include <cuda_runtime.h>

#include <string>

#include "ttap/result.h"

namespace ttap::cuda {

// Of the launch just made. The error is taken away, so that it does not turn up in the model's own check.
inline Status launched(const char* what) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return {};
  return Error{.code = ErrorCode::kUnsupported,
               .message = std::string("CUDA: ") + what + ": " + cudaGetErrorString(error)};
}

}  // namespace ttap::cuda
