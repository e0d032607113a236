#pragma once

#include "cuda/kernels/quant/quant_job.h"
#include "cuda/runtime/runtime.h"
#include "ttap/api.h"
#include "ttap/quant.h"

namespace ttap::cuda {

// The values of a group whose tensors lie in memory of `device`, into `target` there: the same bits as decode() gives
// on the CPU. One launch on `stream`, which nothing waits for.
TTAP_API Status decode_on_gpu(const QuantGroup& group, DType dtype, void* target, int device, Stream stream);

// The same group as the kernels take it. `by_units` as false keeps to the path of one value at a time.
Result<QuantJob> quant_job(const QuantGroup& group, DType dtype, void* target, bool by_units = true);

}  // namespace ttap::cuda
