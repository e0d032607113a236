#pragma once

#include "cuda/kernels/block_lanes.cuh"

// Which lane a dtype needs. Complex numbers are pairs of real ones.
namespace ttap::cuda {

// Calls `use`, on the side that calls this, with a null pointer to the lane; BYTES is that of one-byte formats.
#pragma nv_exec_check_disable
template <class BYTES, class Use>
TTAP_HD auto with_lane(DType dtype, Use use) {
  switch (dtype) {
    case DType::kF16: return use(static_cast<ValueLane<LaneF16>*>(nullptr));
    case DType::kBF16: return use(static_cast<ValueLane<LaneBF16>*>(nullptr));
    case DType::kF32:
    case DType::kC64: return use(static_cast<ValueLane<LaneF32>*>(nullptr));
    case DType::kF64:
    case DType::kC128: return use(static_cast<ValueLane<LaneF64>*>(nullptr));
    case DType::kI16: return use(static_cast<ValueLane<LaneI16>*>(nullptr));
    case DType::kU16: return use(static_cast<ValueLane<LaneU16>*>(nullptr));
    case DType::kI32: return use(static_cast<ValueLane<LaneI32>*>(nullptr));
    case DType::kU32: return use(static_cast<ValueLane<LaneU32>*>(nullptr));
    case DType::kI64: return use(static_cast<ValueLane<LaneI64>*>(nullptr));
    case DType::kU64: return use(static_cast<ValueLane<LaneU64>*>(nullptr));
    default: return use(static_cast<BYTES*>(nullptr));
  }
}

}  // namespace ttap::cuda
