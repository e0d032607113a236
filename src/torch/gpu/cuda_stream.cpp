#include "torch/gpu/cuda_stream.h"

#include <c10/core/Stream.h>
#include <dlfcn.h>

namespace ttap::torch_source {
namespace {

// c10::cuda::CUDAStream is a c10::Stream and nothing else.
using CurrentStream = c10::Stream (*)(c10::DeviceIndex);
using HandleOf = cuda::Stream (*)(const c10::Stream*);

struct StreamFunctions {
  CurrentStream current = nullptr;
  HandleOf handle = nullptr;
};

const StreamFunctions& functions() {
  static const StreamFunctions found = [] {
    StreamFunctions functions;
    void* library = dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) return functions;
    functions.current = reinterpret_cast<CurrentStream>(dlsym(library, "_ZN3c104cuda20getCurrentCUDAStreamEa"));
    functions.handle = reinterpret_cast<HandleOf>(dlsym(library, "_ZNK3c104cuda10CUDAStream6streamEv"));
    return functions;  // the library stays: it is PyTorch's
  }();
  return found;
}

}  // namespace

bool CudaStreams::found() { return functions().current != nullptr && functions().handle != nullptr; }

cuda::Stream CudaStreams::current(int device) {
  const c10::Stream stream = functions().current(static_cast<c10::DeviceIndex>(device));
  return functions().handle(&stream);
}

}  // namespace ttap::torch_source
