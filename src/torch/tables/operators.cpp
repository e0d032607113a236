#include "torch/tables/operators.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <string_view>

namespace ttap::torch_source {
namespace {

using c10::DispatchKey;

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

void describe_schema(Operator& op, PlaceTable& places) {
  const auto& arguments = op.schema->arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& argument = arguments[i];
    const bool annotated = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    // Collectives do not say that they write; it is always their first argument.
    const bool written = annotated || (i == 0 && starts_with(op.name, "c10d::") && op.name.back() == '_');
    const std::string place = argument.kwarg_only() ? argument.name() : std::to_string(i);
    const TextId path = places.texts().intern("/" + place);
    op.arguments.push_back({path, places.of(places.in(), path), written, annotated && argument.kwarg_only()});
    op.writes |= written;
    if (argument.name() == "async_op" && argument.type()->kind() == c10::TypeKind::BoolType)
      op.async_argument = static_cast<int>(i);
    if (argument.name() == "generator") op.generator_argument = static_cast<int>(i);
    if (argument.name() == "device") op.device_argument = static_cast<int>(i);
    if (argument.name() == "group_name" || argument.name() == "process_group") op.group_argument = static_cast<int>(i);
  }
  // Their schemas do not say it: in training they write running mean and variance.
  if (op.name == "aten::native_batch_norm" || op.name == "aten::cudnn_batch_norm" ||
      op.name == "aten::miopen_batch_norm") {
    constexpr size_t kRunningMean = 3, kRunningVariance = 4, kTraining = 5;
    op.arguments[kRunningMean].written = op.arguments[kRunningVariance].written = op.writes = true;
    op.training_flag = kTraining;
  }
}

bool has_real_kernel(const c10::OperatorHandle& op, DispatchKey key) {
  return op.hasKernelForDispatchKey(key) && !op.isKernelFallthroughKernel(key);
}

c10::DispatchKeySet keys_above(const c10::OperatorHandle& op) {
  c10::DispatchKeySet keys;
  bool autograd = op.hasKernelForDispatchKey(DispatchKey::Autograd);
  if (!autograd)
    for (const DispatchKey key : c10::getRuntimeDispatchKeySet(DispatchKey::Autograd))
      autograd = autograd || has_real_kernel(op, key);
  if (autograd) keys = keys | c10::autograd_dispatch_keyset;
  if (has_real_kernel(op, DispatchKey::ADInplaceOrView))
    keys = keys | c10::DispatchKeySet(DispatchKey::ADInplaceOrView);
  return keys;
}

void describe_dispatch(Operator& op) {
  op.handle = c10::Dispatcher::singleton().findSchema({op.name, op.overload});
  if (!op.handle) return;
  op.above = keys_above(*op.handle);
  op.resolved = {};
  for (const DispatchKey key : kLazy)
    if (!op.handle->hasKernelForDispatchKey(key)) op.resolved = op.resolved | c10::DispatchKeySet(key);
  op.is_composite = op.handle->hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) ||
                    op.handle->hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutogradNestedTensor);
}

// Where the dispatcher would look for the kernel, were it not for autograd and the like.
DispatchKey backend_of(c10::DispatchKeySet keys) {
  if (keys.has(DispatchKey::NestedTensor))
    return c10::toRuntimePerBackendFunctionalityKey(DispatchKey::NestedTensor, keys.highestBackendKey());
  return c10::highestPriorityBackendTypeId(keys);
}

bool has_kernel_of_its_own(const c10::OperatorHandle& op, DispatchKey backend) {
  if (backend == DispatchKey::Undefined) return false;
  if (c10::toFunctionalityKey(backend) == DispatchKey::NestedTensor)
    return op.hasKernelForDispatchKey(backend) || op.hasKernelForDispatchKey(DispatchKey::AutogradNestedTensor) ||
           op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd);
  // The dispatcher prefers these to the composition; a formula for all of autograd comes after it.
  if (op.hasKernelForDispatchKey(backend)) return true;
  if (op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd)) return true;
  return op.hasKernelForDispatchKey(c10::getAutogradKeyFromBackend(c10::toBackendComponent(backend)));
}

// One that was taken away and defined again may have got the same place for its name.
bool is_another(Operator& op, const at::RecordFunction& function) {
  if (!op.dispatched) return false;
  const std::optional<c10::FunctionSchema> schema = function.operator_schema();
  if (!schema || !(*schema == *op.schema)) return true;
  describe_dispatch(op);
  op.decided_for = DispatchKey::Undefined;
  return false;
}

// Most are called by a name that says so; the state of random numbers is not set where none are drawn.
uint64_t scratch_results_of(const Operator& op) {
  constexpr std::string_view kRecurrent[] = {"aten::mkldnn_rnn_layer", "aten::_cudnn_rnn", "aten::miopen_rnn",
                                             "aten::cudnn_batch_norm"};
  constexpr std::string_view kNames[] = {"rng_state", "unused", "philox_seed", "philox_offset", "debug_attn_mask"};
  constexpr size_t kOwnResults = 3;
  const bool recurrent = std::ranges::find(kRecurrent, op.name) != std::end(kRecurrent);
  if (!recurrent && op.name.find("attention") == std::string::npos) return 0;
  uint64_t found = 0;
  const std::vector<c10::Argument>& results = op.schema->returns();
  for (size_t i = 0; i < std::min<size_t>(results.size(), 64); ++i) {
    const bool scratch =
        recurrent ? i >= kOwnResults : std::ranges::find(kNames, results[i].name()) != std::end(kNames);
    found |= uint64_t{scratch} << i;
  }
  return found;
}

}  // namespace

constexpr std::string_view kEngine = "autograd::engine::evaluate_function";

std::atomic<uint64_t> OperatorTable::removals_{0};

struct OperatorTable::CountRemovals : c10::OpRegistrationListener {
  void onOperatorRegistered(const c10::OperatorHandle&) override {}
  void onOperatorDeregistered(const c10::OperatorHandle&) override {
    removals_.fetch_add(1, std::memory_order_relaxed);
  }
};

OperatorTable::OperatorTable(PlaceTable& places) : places_(places) {
  engine_.is_engine = true;
  // Never destroyed: operators go after everything of ours.
  static auto* const listening = new c10::RegistrationHandleRAII(
      c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<CountRemovals>()));
  (void)listening;
}

Operator& OperatorTable::find(const at::RecordFunction& function, const char* name) {
  const uint64_t now = removals_.load(std::memory_order_relaxed);
  const auto known = by_name_.find(name);
  // What is no operator has its name anywhere, perhaps where another one had it before.
  if ((known == by_name_.end() || known->second.removals != now) && !function.operator_schema())
    return starts_with(name, kEngine) ? engine_ : other_range_;
  Found& found = known != by_name_.end() ? known->second : by_name_[name];
  if (found.op == nullptr || found.removals != now) {
    const char* overload = function.overload_name();
    if (found.op == nullptr || found.op->name != name || found.op->overload != overload ||
        is_another(*found.op, function)) {
      operators_.push_back(make(function, name, overload));
      found.op = operators_.back().get();
    }
    found.removals = now;
  }
  if (found.op->dispatched) recent_of(name) = {name, found.op, now};
  return *found.op;
}

std::unique_ptr<Operator> OperatorTable::make(const at::RecordFunction& function, const char* name,
                                              const char* overload) {
  auto op = std::make_unique<Operator>();
  op->name = name;
  op->overload = overload;
  op->full_name = op->overload.empty() ? op->name : op->name + "." + op->overload;
  op->number = static_cast<uint32_t>(operators_.size());
  op->schema = function.operator_schema();
  op->dispatched = op->schema.has_value() && !starts_with(op->name, "profiler::");
  if (!op->dispatched) return op;
  op->result_count = op->schema->returns().size();
  describe_schema(*op, places_);
  describe_dispatch(*op);
  op->computes = op->name != "aten::detach_" && op->name != "aten::requires_grad_" && op->name != "aten::set_data" &&
                 op->name != "aten::retain_grad" && op->name != "aten::_backward";
  op->draws = op->handle && op->handle->hasTag(at::Tag::nondeterministic_seeded);
  op->is_c10d = starts_with(op->name, "c10d::");
  op->is_receive = op->is_c10d && op->name.find("recv") != std::string::npos;
  op->is_wait = op->name == "_c10d_functional::wait_tensor" || op->name == "c10d_functional::wait_tensor";
  op->result_comes_later = starts_with(op->name, "_c10d_functional::") && !op->is_wait;
  op->is_collective = op->is_c10d || op->is_wait || op->result_comes_later;
  op->may_be_shaped = op->computes && !op->writes && !op->is_collective && op->group_argument < 0;
  op->is_view = !op->writes && !op->schema->returns().empty();
  for (const c10::Argument& result : op->schema->returns())
    op->is_view = op->is_view && result.alias_info() != nullptr && !result.alias_info()->isWrite();
  constexpr std::string_view kMoveNothing[] = {"as_strided_", "detach_",   "resize_", "resize_as_", "squeeze_",
                                               "swapaxes_",   "swapdims_", "t_",      "transpose_", "unsqueeze_"};
  op->moves_nothing = starts_with(op->name, "aten::") &&
                      std::ranges::find(kMoveNothing, std::string_view(op->name).substr(6)) != std::end(kMoveNothing);
  op->is_copy = op->full_name == "aten::clone" || op->full_name == "aten::copy_";
  op->fills_nothing = starts_with(op->name, "aten::empty") || starts_with(op->name, "aten::new_empty");
  op->scratch_results = scratch_results_of(*op);
  return op;
}

bool decide_looked_through(Operator& op, c10::DispatchKeySet keys) {
  if (keys.has_any(kTransforms)) return true;
  if (keys.has_any(c10::autocast_dispatch_keyset) && op.handle) {
    const DispatchKey autocast = (keys & c10::autocast_dispatch_keyset).highestPriorityTypeId();
    if (op.handle->hasKernelForDispatchKey(autocast) && !op.handle->isKernelFallthroughKernel(autocast)) return true;
  }
  if (!op.is_composite) return false;
  const DispatchKey backend = backend_of(keys);
  if (op.decided_for == backend && backend != DispatchKey::Undefined) return op.decided;
  op.decided_for = backend;
  op.decided = !has_kernel_of_its_own(*op.handle, backend);
  return op.decided;
}

}  // namespace ttap::torch_source
