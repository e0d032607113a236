#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ttap/dtype.h"

namespace ttap {

// The Python names that a .pt file may use. There is no way to add one from outside: this list is the wall.
enum class PtName : uint8_t {
  kStorageType,  // torch.FloatStorage, …: dtype says which
  kUntypedStorage,
  kDType,       // torch.float32, …
  kTensorType,  // torch.Tensor, torch.nn.parameter.Parameter: as an argument, never called
  kRebuildTensor,
  kRebuildTensorV2,
  kRebuildTensorV3,
  kRebuildFromType,
  kRebuildParameter,
  kRebuildParameterWithState,
  kOrderedDict,
  kSet,
  kComplex,
  kEncode,
  kByteArray,
  kSize,
  kDevice,
  kUnsupported,  // harmless, but of a kind of tensor that has no counterpart here
};

struct KnownPtName {
  PtName what;
  std::optional<DType> dtype = {};
};

// Nothing for a name that is not on the list.
std::optional<KnownPtName> known_pt_name(std::string_view module, std::string_view name);

// "FloatStorage"; empty for the dtypes that torch.save stores untyped.
std::string_view typed_storage_name(DType dtype);
// "float8_e4m3fn": the attribute of torch.
std::string_view torch_dtype_name(DType dtype);

}  // namespace ttap
