#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/record_function.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/util/flat_hash_map.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/ops/op_sink.h"
#include "torch/tables/place_table.h"

namespace ttap::torch_source {

// The texts of an operator's arguments, or of its results, by what two calls with the same text have in common.
class SignatureTexts {
 public:
  template <class Make>
  TextId of(uint64_t signature, const Make& make) {
    if (signature == last_signature_ && !texts_.empty()) return last_;
    if (texts_.size() > kMost) texts_.clear();
    auto found = texts_.find(signature);
    if (found == texts_.end()) found = texts_.emplace(signature, make()).first;
    last_signature_ = signature;
    return last_ = found->second;
  }

 private:
  static constexpr size_t kMost = size_t{1} << 16;  // scalars may be others in every call

  ska::flat_hash_map<uint64_t, TextId> texts_;
  uint64_t last_signature_ = 0;
  TextId last_ = 0;
};

// What is known of one operator of the dispatcher, once per trace.
struct Operator {
  struct Argument {
    TextId path = 0;    // `/0`, or `/out` where it goes by name
    PlaceId place = 0;  // of role "in"
    bool written = false;
    bool target = false;  // out=: written to and not read
  };

  std::string name;       // aten::add
  std::string overload;   // Tensor
  std::string full_name;  // aten::add.Tensor
  uint32_t number = 0;
  bool dispatched = false;  // false: a range that somebody marked (profiler, autograd engine), no operator
  bool is_engine = false;   // such a range: autograd evaluates a node, and fits its results afterwards
  std::optional<c10::FunctionSchema> schema;
  std::vector<Argument> arguments;
  size_t result_count = 0;
  bool writes = false;              // to any argument
  int training_flag = -1;           // the argument that says whether it does
  bool result_comes_later = false;  // a collective that is waited for by another operator
  bool is_wait = false;             // that operator
  bool is_c10d = false;             // c10d:: collectives, whose result is a Work
  bool is_receive = false;          // one that nobody can wait for without perhaps waiting forever
  bool is_collective = false;       // any of these
  int async_argument = -1;          // which argument says that the program waits for it later
  int group_argument = -1;          // which argument is the group of a collective, or its name
  bool draws = false;               // random numbers
  int generator_argument = -1;      // which argument is the generator that it draws from
  int device_argument = -1;         // which argument is the device that it computes on
  bool fills_nothing = false;       // empty(): whatever is in the memory
  uint64_t scratch_results = 0;     // bits: memory for the backward alone, of which some may hold anything
  bool moves_nothing = false;       // it writes to a tensor's sizes and strides only
  bool is_view = false;             // its results are its arguments, seen otherwise

  // For visibility: composites are looked through, unless the backend at hand has a kernel of its own.
  bool is_composite = false;
  c10::DispatchKeySet above;     // keys for which it has kernels that a dispatch mode has yet to come after
  c10::DispatchKeySet resolved;  // those of lazy views, which PyTorch copies before its kernels see them
  bool is_copy = false;          // what it copies them by
  std::optional<c10::OperatorHandle> handle;
  c10::DispatchKey decided_for = c10::DispatchKey::Undefined;
  bool decided = false;

  bool computes = true;  // false: it only changes what autograd knows of a tensor

  bool may_be_shaped = false;  // nothing but its names and shapes may be kept: it computes, and writes to no argument

  SignatureTexts argument_texts;
  SignatureTexts result_texts;
};

// Finds the operator of a RecordFunction without copying its schema or name.
class OperatorTable {
 public:
  explicit OperatorTable(PlaceTable& places);
  Operator& of(const at::RecordFunction& function) {
    const char* name = function.name();
    const Recent& recent = recent_of(name);
    const bool known = recent.name == name && recent.removals == removals_.load(std::memory_order_relaxed);
    return known ? *recent.op : find(function, name);
  }

 private:
  struct Recent {
    const char* name = nullptr;
    Operator* op = nullptr;
    uint64_t removals = 0;
  };
  Recent& recent_of(const char* name) {
    return recent_[reinterpret_cast<uintptr_t>(name) * 0x9E3779B97F4A7C15 >> (64 - kRecentBits)];
  }
  Operator& find(const at::RecordFunction& function, const char* name);
  std::unique_ptr<Operator> make(const at::RecordFunction& function, const char* name, const char* overload);

  PlaceTable& places_;
  // By where the schema keeps its name. Once an operator has been taken away another one may get the place: then the
  // names are compared too.
  struct Found {
    Operator* op = nullptr;
    uint64_t removals = 0;  // of operators, when the names were the same
  };
  ska::flat_hash_map<const char*, Found> by_name_;
  std::vector<std::unique_ptr<Operator>> operators_;
  Operator engine_, other_range_;  // of all that are no operators
  static constexpr int kRecentBits = 8;
  Recent recent_[1 << kRecentBits];  // asked before the map; none but those of the dispatcher

  // How many operators of the process have been taken away.
  struct CountRemovals;
  static std::atomic<uint64_t> removals_;
};

// Layers that call an operator again, after which a dispatch mode sees it.
inline constexpr c10::DispatchKeySet kTransforms(
    {c10::DispatchKey::FuncTorchDynamicLayerFrontMode, c10::DispatchKey::FuncTorchDynamicLayerBackMode,
     c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchVmapMode, c10::DispatchKey::FuncTorchGradWrapper,
     c10::DispatchKey::BatchedNestedTensor, c10::DispatchKey::Batched, c10::DispatchKey::VmapMode});

// Lazy views: conjugate, negative.
inline constexpr c10::DispatchKeySet kLazy({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});

// Whether a dispatch mode would see the operators that this one calls, and not itself: it is composed of others, or a
// layer above autograd (autocast, a transform of torch.func) calls it again. `keys` are those of its arguments and of
// the thread.
bool decide_looked_through(Operator& op, c10::DispatchKeySet keys);
inline bool is_looked_through(Operator& op, c10::DispatchKeySet keys) {
  return (op.is_composite || keys.has_any(kTransforms | c10::autocast_dispatch_keyset)) &&
         decide_looked_through(op, keys);
}

}  // namespace ttap::torch_source
