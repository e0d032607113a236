#include "store/foreign/pt_names.h"

#include <algorithm>

namespace ttap {
namespace {

struct TorchType {
  DType dtype;
  std::string_view name;
  std::string_view storage;  // empty: torch.save uses an untyped one
};
constexpr TorchType kTypes[] = {{DType::kBool, "bool", "BoolStorage"},
                                {DType::kU8, "uint8", "ByteStorage"},
                                {DType::kU16, "uint16", ""},
                                {DType::kU32, "uint32", ""},
                                {DType::kU64, "uint64", ""},
                                {DType::kI8, "int8", "CharStorage"},
                                {DType::kI16, "int16", "ShortStorage"},
                                {DType::kI32, "int32", "IntStorage"},
                                {DType::kI64, "int64", "LongStorage"},
                                {DType::kF16, "float16", "HalfStorage"},
                                {DType::kBF16, "bfloat16", "BFloat16Storage"},
                                {DType::kF32, "float32", "FloatStorage"},
                                {DType::kF64, "float64", "DoubleStorage"},
                                {DType::kC64, "complex64", "ComplexFloatStorage"},
                                {DType::kC128, "complex128", "ComplexDoubleStorage"},
                                {DType::kF8E4M3FN, "float8_e4m3fn", ""},
                                {DType::kF8E5M2, "float8_e5m2", ""},
                                {DType::kF8E4M3FNUZ, "float8_e4m3fnuz", ""},
                                {DType::kF8E5M2FNUZ, "float8_e5m2fnuz", ""},
                                {DType::kF8E8M0FNU, "float8_e8m0fnu", ""},
                                {DType::kF4E2M1FNx2, "float4_e2m1fn_x2", ""}};
static_assert(std::size(kTypes) == std::size(kAllDTypes));

struct Listed {
  std::string_view module;
  std::string_view name;
  PtName what;
};
constexpr Listed kListed[] = {
    {"torch.storage", "UntypedStorage", PtName::kUntypedStorage},
    {"torch", "UntypedStorage", PtName::kUntypedStorage},
    {"torch", "Tensor", PtName::kTensorType},
    {"torch.nn.parameter", "Parameter", PtName::kTensorType},
    {"torch.nn.parameter", "Buffer", PtName::kTensorType},
    {"torch._utils", "_rebuild_tensor", PtName::kRebuildTensor},
    {"torch._utils", "_rebuild_tensor_v2", PtName::kRebuildTensorV2},
    {"torch._utils", "_rebuild_tensor_v3", PtName::kRebuildTensorV3},
    {"torch._tensor", "_rebuild_from_type_v2", PtName::kRebuildFromType},
    {"torch._utils", "_rebuild_parameter", PtName::kRebuildParameter},
    {"torch._utils", "_rebuild_parameter_with_state", PtName::kRebuildParameterWithState},
    {"collections", "OrderedDict", PtName::kOrderedDict},
    {"__builtin__", "set", PtName::kSet},
    {"builtins", "set", PtName::kSet},
    {"__builtin__", "frozenset", PtName::kSet},
    {"builtins", "frozenset", PtName::kSet},
    {"__builtin__", "complex", PtName::kComplex},
    {"builtins", "complex", PtName::kComplex},
    {"__builtin__", "bytearray", PtName::kByteArray},
    {"builtins", "bytearray", PtName::kByteArray},
    {"_codecs", "encode", PtName::kEncode},
    {"torch", "Size", PtName::kSize},
    {"torch", "device", PtName::kDevice},
    {"torch._utils", "_rebuild_sparse_tensor", PtName::kUnsupported},
    {"torch._utils", "_rebuild_qtensor", PtName::kUnsupported},
    {"torch._utils", "_rebuild_nested_tensor", PtName::kUnsupported},
    {"torch._utils", "_rebuild_meta_tensor_no_storage", PtName::kUnsupported},
    {"torch", "QUInt8Storage", PtName::kUnsupported},
    {"torch", "QInt8Storage", PtName::kUnsupported},
    {"torch", "QInt32Storage", PtName::kUnsupported},
    {"torch", "complex32", PtName::kUnsupported},
};

}  // namespace

std::optional<KnownPtName> known_pt_name(std::string_view module, std::string_view name) {
  if (module == "torch") {
    for (const TorchType& type : kTypes) {
      if (name == type.name) return KnownPtName{PtName::kDType, type.dtype};
      if (!type.storage.empty() && name == type.storage) return KnownPtName{PtName::kStorageType, type.dtype};
    }
  }
  for (const Listed& listed : kListed)
    if (module == listed.module && name == listed.name) return KnownPtName{listed.what, std::nullopt};
  return std::nullopt;
}

std::string_view typed_storage_name(DType dtype) {
  return std::ranges::find(kTypes, dtype, &TorchType::dtype)->storage;
}

std::string_view torch_dtype_name(DType dtype) { return std::ranges::find(kTypes, dtype, &TorchType::dtype)->name; }

}  // namespace ttap
