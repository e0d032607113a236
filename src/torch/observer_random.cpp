#include <ATen/Context.h>

#include <cstring>
#include <mutex>
#include <optional>

#include "torch/frame.h"
#include "torch/observer.h"

// The state of the generator that a call draws its random numbers from: with it the call can be made again.
namespace ttap::torch_source {
namespace {

// The device that a call computes on.
c10::Device device_of(const Operator& op, c10::ArrayRef<const c10::IValue> arguments,
                      const std::vector<TensorPlace>& tensors) {
  if (op.device_argument >= 0)
    if (const c10::IValue& device = arguments[static_cast<size_t>(op.device_argument)]; device.isDevice())
      return device.toDevice();
  return tensors.empty() ? c10::Device(c10::kCPU) : tensors.front().tensor->device();
}

// The generator that was passed, else the default one of the device; undefined where there is none.
at::Generator generator_of(const Operator& op, c10::ArrayRef<const c10::IValue> arguments,
                           const std::vector<TensorPlace>& tensors) {
  if (op.generator_argument >= 0)
    if (const c10::IValue& given = arguments[static_cast<size_t>(op.generator_argument)]; given.isGenerator())
      return given.toGenerator();
  const c10::Device device = device_of(op, arguments, tensors);
  if (!device.is_cpu() && !device.is_cuda()) return {};
  return at::globalContext().defaultGenerator(device);
}

// Undefined while another thread draws from it: which of the two is first is not known.
at::Tensor state_of(at::Generator& generator) {
  const std::unique_lock lock(generator.mutex(), std::try_to_lock);
  return lock.owns_lock() ? generator.get_state() : at::Tensor();
}

bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

}  // namespace

void Observer::remember_generator(Frame& frame, c10::ArrayRef<const c10::IValue> arguments) {
  if (frame.call.graph != nullptr) return;  // each replay of a graph draws others
  try {
    at::Generator generator = generator_of(*frame.op, arguments, frame.places);
    if (!generator.defined()) return;
    frame.rare().generator_state = state_of(generator);
    frame.rare().generator = std::move(generator);
  } catch (const std::exception&) {
    // One that has no state; the call cannot be made again.
  }
}

// A record of the call, unless it has drawn nothing: a dropout of an evaluation, say.
void Observer::note_generator(Frame& frame) {
  Frame::Rare& rare = frame.rare();
  try {
    const at::Tensor after = state_of(rare.generator);
    if (after.defined() && same_bytes(after, rare.generator_state)) return;
  } catch (const std::exception&) {
    return;
  }
  const MetaId meta = tensors_.meta_of(rare.generator_state);
  const PlaceId place = places_.of(places_.generator(), TextId{0});
  const OpTensor record{.place = place, .meta = meta, .value = next_value_++, .asked = frame.call.level};
  frame.add_pending(record, tensors_.metas()[meta], places_.all()[place], texts_).tensor = rare.generator_state;
}

}  // namespace ttap::torch_source
