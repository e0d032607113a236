#include "store/foreign/pt_calls.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/utf8.h"
#include "store/foreign/pt_names.h"
#include "ttap/tensor_view.h"

namespace ttap {
namespace {

Error corrupt(std::string message) { return {ErrorCode::kCorrupt, std::move(message)}; }

Error forbidden(std::string message) {
  return {.code = ErrorCode::kForbidden,
          .message = std::move(message),
          .hint =
              "nothing was run; if you trust the file, load it in Python and save the tensors alone, e.g. "
              "torch.save(model.state_dict(), path)"};
}

PtName what_of(const PickleValue& value) { return static_cast<PtName>(value.integer); }

}  // namespace

Result<PickleId> PtCalls::name(std::string_view module, std::string_view name) {
  const auto known = known_pt_name(module, name);
  const std::string shown = brief_text(fmt::format("{}.{}", module, name));
  if (!known) return forbidden(fmt::format("the pickle wants to use {}", shown));
  if (known->what == PtName::kUnsupported)
    return Error{.code = ErrorCode::kUnsupported,
                 .message = fmt::format("a tensor made by {} has no counterpart here", shown),
                 .hint = "save it dense, in a plain dtype and with its values"};
  return heap_.add(
      {.kind = PickleKind::kName, .dtype = known->dtype, .integer = static_cast<int64_t>(known->what), .text = name});
}

Result<PickleId> PtCalls::call(PickleId function, PickleId arguments) {
  if (heap_[function].kind != PickleKind::kName)
    return forbidden(fmt::format("the pickle wants to call a {}", to_string(heap_[function].kind)));
  const PickleValue& target = heap_[function];
  const std::vector<PickleId>& args = heap_[arguments].items;
  const auto bad = [&] {
    return corrupt(fmt::format("the pickle calls {} with other arguments than it takes", target.text));
  };
  const auto is = [&](size_t i, PickleKind kind) { return i < args.size() && heap_[args[i]].kind == kind; };
  switch (what_of(target)) {
    case PtName::kRebuildTensor:
    case PtName::kRebuildTensorV2:
    case PtName::kRebuildTensorV3: return rebuild_tensor(function, arguments);
    case PtName::kRebuildParameter:
    case PtName::kRebuildParameterWithState: return is(0, PickleKind::kTensor) ? Result(args[0]) : bad();
    case PtName::kRebuildFromType: {
      // (function, type, arguments, attributes). Only a tensor's own function, so that this cannot nest.
      if (args.size() != 4 || !is(0, PickleKind::kName) || !is(1, PickleKind::kName) || !is(2, PickleKind::kTuple))
        return bad();
      const PtName inner = what_of(heap_[args[0]]);
      const bool tensor =
          inner == PtName::kRebuildTensor || inner == PtName::kRebuildTensorV2 || inner == PtName::kRebuildTensorV3;
      return tensor ? rebuild_tensor(args[0], args[2]) : Result<PickleId>(bad());
    }
    case PtName::kOrderedDict: return args.empty() ? Result(heap_.add({.kind = PickleKind::kDict})) : bad();
    case PtName::kSet:
      // The set refers to its list: copying it would let a pickle multiply itself.
      return args.size() == 1 && is(0, PickleKind::kList)
                 ? Result(heap_.add({.kind = PickleKind::kSet, .items = {args[0]}}))
                 : bad();
    case PtName::kComplex:
      return args.size() == 2 && is(0, PickleKind::kFloat) && is(1, PickleKind::kFloat)
                 ? Result(heap_.add({.kind = PickleKind::kComplex,
                                     .number = heap_[args[0]].number,
                                     .imaginary = heap_[args[1]].number}))
                 : bad();
    case PtName::kEncode:  // how protocol 2 writes bytes
      return is(0, PickleKind::kText) ? Result(heap_.add({.kind = PickleKind::kBytes, .text = heap_[args[0]].text}))
                                      : bad();
    case PtName::kByteArray:
      return args.empty() ? Result(heap_.add({.kind = PickleKind::kBytes}))
             : is(0, PickleKind::kBytes) || is(0, PickleKind::kText)
                 ? Result(heap_.add({.kind = PickleKind::kBytes, .text = heap_[args[0]].text}))
                 : bad();
    case PtName::kSize: return args.size() == 1 && is(0, PickleKind::kTuple) ? Result(args[0]) : bad();
    case PtName::kDevice: {
      if (!is(0, PickleKind::kText) || (args.size() > 1 && !is(1, PickleKind::kInt))) return bad();
      const int64_t index = args.size() > 1 ? heap_[args[1]].integer : -1;
      return heap_.add({.kind = PickleKind::kDevice, .integer = index, .text = heap_[args[0]].text});
    }
    case PtName::kStorageType:
    case PtName::kUntypedStorage:
    case PtName::kDType:
    case PtName::kTensorType:
    case PtName::kUnsupported: break;
  }
  return forbidden(fmt::format("the pickle wants to call {}", target.text));
}

Result<PickleId> PtCalls::rebuild_tensor(PickleId function, PickleId arguments) {
  const PtName version = what_of(heap_[function]);
  const auto& args = heap_[arguments].items;
  const auto bad = [&](std::string_view what) {
    return corrupt(fmt::format("the pickle describes a tensor by {}", what));
  };
  const size_t least = version == PtName::kRebuildTensor ? 4 : version == PtName::kRebuildTensorV2 ? 6 : 7;
  const size_t most = version == PtName::kRebuildTensor ? 4 : least + 1;
  if (args.size() < least || args.size() > most) return bad("another number of arguments");
  const PickleValue& storage = heap_[args[0]];
  if (storage.kind != PickleKind::kStorage) return bad("something else than a storage");
  if (heap_[args[1]].kind != PickleKind::kInt || heap_[args[1]].integer < 0) return bad("an offset that is none");
  for (size_t i : {2, 3}) {
    // Before anything looks at each of them: the same long tuple can be passed again and again.
    if (heap_[args[i]].items.size() > kMaxDims)
      return Error{ErrorCode::kTooLarge, fmt::format("a tensor of more than {} dimensions", kMaxDims)};
    if (heap_[args[i]].kind != PickleKind::kTuple ||
        !std::ranges::all_of(heap_[args[i]].items, [&](PickleId id) { return heap_[id].kind == PickleKind::kInt; }))
      return bad("a shape or strides that are not integers");
  }
  std::optional<DType> dtype = storage.dtype;
  if (version == PtName::kRebuildTensorV3) {
    const PickleValue& type = heap_[args[6]];
    if (type.kind != PickleKind::kName || what_of(type) != PtName::kDType) return bad("something else than a dtype");
    dtype = type.dtype;
  }
  if (!dtype) return bad("a storage without a dtype");
  if (args.size() == most && version != PtName::kRebuildTensor) {
    // Lazy conjugation and negation: the stored bytes are not the values.
    const PickleValue& metadata = heap_[args[most - 1]];
    if (metadata.kind != PickleKind::kNone && metadata.kind != PickleKind::kDict) return bad("metadata that is none");
    if (!metadata.items.empty())
      return Error{.code = ErrorCode::kUnsupported,
                   .message = "a tensor whose conjugation or negation was put off",
                   .hint = "save tensor.resolve_conj().resolve_neg()"};
  }
  return heap_.add({.kind = PickleKind::kTensor,
                    .dtype = dtype,
                    .integer = heap_[args[1]].integer,
                    .items = {args[0], args[2], args[3]}});
}

Result<PickleId> PtCalls::persistent(PickleId id) {
  const auto bad = [] { return corrupt("the pickle refers to something outside that is not a storage"); };
  // ("storage", type, key, location, elements)
  if (heap_[id].kind != PickleKind::kTuple || heap_[id].items.size() != 5) return bad();
  const auto& parts = heap_[id].items;
  const PickleValue &tag = heap_[parts[0]], &type = heap_[parts[1]], &key = heap_[parts[2]], &size = heap_[parts[4]];
  if (tag.kind != PickleKind::kText || tag.text != "storage" || key.kind != PickleKind::kText ||
      size.kind != PickleKind::kInt || size.integer < 0 || type.kind != PickleKind::kName)
    return bad();
  if (what_of(type) != PtName::kStorageType && what_of(type) != PtName::kUntypedStorage) return bad();
  return heap_.add({.kind = PickleKind::kStorage, .dtype = type.dtype, .integer = size.integer, .text = key.text});
}

Status PtCalls::set_state(PickleId object, PickleId) {
  // The attributes of a dictionary (`_metadata` of a state_dict) hold module versions; nothing here depends
  // on them.
  if (heap_[object].kind == PickleKind::kDict) return {};
  return forbidden(fmt::format("the pickle wants to set the state of a {}", to_string(heap_[object].kind)));
}

}  // namespace ttap
