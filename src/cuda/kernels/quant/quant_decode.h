#pragma once

#include "cuda/kernels/quant/quant_job.h"
#include "cuda/runtime/runtime.h"

namespace ttap::cuda {

// One launch on the current device, which neither allocates nor waits.
Status launch_quant_decode(const QuantJob& job, Stream stream);

}  // namespace ttap::cuda
