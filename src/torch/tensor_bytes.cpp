#include "torch/tensor_bytes.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <span>

#include "core/logical_copy.h"
#include "torch/observer.h"

namespace ttap::torch_source {
namespace {

template <class Word>
void flip_signs(std::span<std::byte> bytes, size_t first, size_t step) {
  auto* words = reinterpret_cast<Word*>(bytes.data());
  constexpr Word kSign = Word{1} << (8 * sizeof(Word) - 1);
  for (size_t i = first; i < bytes.size() / sizeof(Word); i += step) words[i] ^= kSign;
}

// Negates what a tensor is marked to be read as the negative of: all of it, or the imaginary parts.
void resolve(std::span<std::byte> bytes, DType dtype, bool conjugate, bool negative) {
  const bool complex = dtype_info(dtype).kind == DTypeKind::kComplex;
  const size_t part = size_of(dtype) / (complex ? 2 : 1);
  const auto flip = [&](size_t first, size_t step) {
    if (part == 8) flip_signs<uint64_t>(bytes, first, step);
    if (part == 4) flip_signs<uint32_t>(bytes, first, step);
    if (part == 2) flip_signs<uint16_t>(bytes, first, step);
  };
  if (negative) flip(0, 1);
  if (conjugate && complex) flip(1, 2);
}

}  // namespace

const void* TensorBytes::of(const at::Tensor& tensor, TensorView& view) {
  if (!tensor.is_cpu()) {
    // A copy that waits for the device. None of its own operators may be heard, differentiated or dispatched by others.
    Observer::suppress_recording(1);
    try {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      const c10::impl::ExcludeDispatchKeyGuard no_modes(c10::DispatchKeySet(
          {c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot, c10::DispatchKey::Functionalize}));
      const auto on_host = tensor.options().device(c10::kCPU);
      const bool dense = tensor.is_non_overlapping_and_dense();
      // What is expanded, and has an element in several places, cannot be written to.
      host_ = dense ? at::empty_strided(tensor.sizes(), tensor.strides(), on_host) : at::empty(tensor.sizes(), on_host);
      host_.copy_(tensor);
      if (!dense) view.strides = {};
    } catch (const std::exception&) {
      host_ = at::Tensor();
    }
    Observer::suppress_recording(-1);
    return host_.defined() ? host_.const_data_ptr() : nullptr;
  }
  const void* data = tensor.const_data_ptr();
  const bool conjugate = tensor.is_conj();
  const bool negative = tensor.is_neg();
  if ((!conjugate && !negative) || data == nullptr) return data;
  view.data = data;
  const LogicalCopy copy(view);
  resolved_.resize(copy.elements() * copy.element_size());
  copy.copy(0, copy.elements(), resolved_.data());
  resolve(resolved_, view.dtype, conjugate, negative);
  view.strides = {};
  return resolved_.data();
}

}  // namespace ttap::torch_source
