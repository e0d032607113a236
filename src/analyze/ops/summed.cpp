#include "analyze/ops/summed.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "analyze/ops/op_facts.h"

namespace ttap {
namespace {

const SummedTensor* find(std::span<const SummedTensor> tensors, std::string_view path) {
  const auto found = std::ranges::find(tensors, path, &SummedTensor::path);
  return found == tensors.end() ? nullptr : &*found;
}
const SummedTensor* given(const SummedCall& call, std::string_view path) { return find(call.given, path); }
double size_of(const SummedTensor* tensor, double otherwise) { return tensor == nullptr ? otherwise : tensor->rms; }
double length(const SummedTensor& tensor, size_t axis) {
  return axis < tensor.shape.size() ? static_cast<double>(std::max<int64_t>(tensor.shape[axis], 1)) : 1;
}

std::optional<Summed> reduced(const SummedTensor* x, const SummedTensor& result, double weight = 1) {
  if (x == nullptr || result.count == 0) return std::nullopt;
  const double terms = std::max(x->count / result.count, 1.0);
  return Summed{.scale = terms * x->rms * weight, .terms = terms};
}
std::optional<Summed> sum(const SummedCall& call) { return reduced(given(call, "/0"), call.result); }
std::optional<Summed> mean(const SummedCall& call) {
  auto summed = sum(call);
  if (summed) summed->scale /= summed->terms;
  return summed;
}

std::optional<Summed> product(const SummedTensor* x, const SummedTensor* y, double terms, double besides = 0) {
  if (x == nullptr || y == nullptr) return std::nullopt;
  return Summed{.scale = terms * x->rms * y->rms + besides, .terms = terms};
}
std::optional<Summed> matmul(const SummedCall& call) {
  const SummedTensor* x = given(call, "/0");
  if (x == nullptr || x->shape.empty()) return std::nullopt;
  return product(x, given(call, "/1"), length(*x, x->shape.size() - 1), size_of(given(call, "/2"), 0));
}
std::optional<Summed> addmm(const SummedCall& call) {
  const SummedTensor* x = given(call, "/1");
  if (x == nullptr || x->shape.empty()) return std::nullopt;
  return product(x, given(call, "/2"), length(*x, x->shape.size() - 1), size_of(given(call, "/0"), 0));
}
std::optional<Summed> convolution(const SummedCall& call) {
  const SummedTensor* weight = given(call, "/1");
  if (weight == nullptr) return std::nullopt;
  return product(given(call, "/0"), weight, weight->count / length(*weight, 0), size_of(given(call, "/2"), 0));
}
// On a CPU, PyTorch's own convolutions multiply one sample at a time, and add what that gives, for the gradient of the
// input that of each window, in the dtype of the result.
std::optional<Summed> convolution_backward(const SummedCall& call) {
  const SummedTensor *gradient = given(call, "/0"), *weight = given(call, "/2");
  if (gradient == nullptr || weight == nullptr) return std::nullopt;
  if (call.result.path == "/2") return reduced(gradient, call.result);
  const bool of_input = call.result.path == "/0";
  auto summed = of_input ? product(gradient, weight, weight->count / length(*weight, 1))
                         : product(gradient, given(call, "/1"), std::max(gradient->count / length(*gradient, 1), 1.0));
  if (summed) summed->rounded_every = of_input ? length(*weight, 0) : summed->terms / length(*gradient, 0);
  return summed;
}

// `alpha=0.5` among the arguments of a call; 1 where it does not stand there.
double alpha(std::string_view text) {
  constexpr std::string_view kName = "alpha=";
  const size_t at = text.find(kName);
  double value = 1;
  if (at != std::string_view::npos) std::from_chars(text.data() + at + kName.size(), text.data() + text.size(), value);
  return std::abs(value);
}
std::optional<Summed> add(const SummedCall& call) {
  Summed summed;
  for (const SummedTensor& each : call.given) {
    summed.shares.push_back(each.path == "/1" ? alpha(call.text) * each.rms : each.rms);
    summed.scale += summed.shares.back();
  }
  return summed;
}
// Nothing is computed: each argument, or some of it, stands in the result.
std::optional<Summed> put_together(const SummedCall& call) {
  Summed summed;
  for (const SummedTensor& each : call.given)
    summed.shares.push_back(each.rms * std::sqrt(std::min(each.count / std::max(call.result.count, 1.0), 1.0)));
  return summed;
}

// A norm takes the mean from its input, which costs the more the larger that is beside the spread.
std::optional<Summed> norm(const SummedCall& call, std::string_view weight, std::string_view bias) {
  const SummedTensor *x = given(call, "/0"), *spread = find(call.made, "/2");  // the latter as 1 / spread
  if (call.result.path == "/1") return mean(call);
  if (x == nullptr || spread == nullptr) return std::nullopt;
  if (call.result.path == "/2") return reduced(x, call.result, spread->rms * spread->max_abs);
  if (call.result.path != "/0") return std::nullopt;
  return Summed{.scale = x->rms * spread->rms * size_of(given(call, weight), 1) + size_of(given(call, bias), 0)};
}
std::optional<Summed> layer_norm(const SummedCall& call) { return norm(call, "/2", "/3"); }
std::optional<Summed> batch_norm(const SummedCall& call) { return norm(call, "/1", "/2"); }

// What a norm's backward takes from a gradient is its part along the input and its mean: of some that is all.
struct NormArguments {
  std::string_view mean, spread, weight;
};
std::optional<Summed> norm_backward(const SummedCall& call, const NormArguments& arguments) {
  const SummedTensor *gradient = given(call, "/0"), *spread = given(call, arguments.spread);
  if (gradient == nullptr || spread == nullptr) return std::nullopt;
  const double shift = 1 + size_of(given(call, arguments.mean), 0) * spread->rms;
  if (call.result.path != "/0") return reduced(gradient, call.result, call.result.path == "/1" ? shift : 1);
  return Summed{.scale = gradient->rms * spread->rms * size_of(given(call, arguments.weight), 1) * shift};
}
// On a CPU, PyTorch adds up the gradients of weight and bias row by row in their own dtype.
std::optional<Summed> layer_norm_backward(const SummedCall& call) {
  auto summed = norm_backward(call, {"/3", "/4", "/5"});
  if (summed) summed->rounded_every = call.result.path != "/0" ? 1 : 0;
  return summed;
}
std::optional<Summed> rms_norm_backward(const SummedCall& call) { return norm_backward(call, {"", "/3", "/4"}); }
std::optional<Summed> batch_norm_backward(const SummedCall& call) { return norm_backward(call, {"/5", "/6", "/2"}); }
std::optional<Summed> group_norm_backward(const SummedCall& call) { return norm_backward(call, {"/2", "/3", "/4"}); }

std::optional<Summed> softmax_backward(const SummedCall& call) {
  const SummedTensor *gradient = given(call, "/0"), *output = given(call, "/1");
  if (gradient == nullptr || output == nullptr) return std::nullopt;
  return Summed{.scale = 2 * output->rms * gradient->max_abs};
}
std::optional<Summed> log_softmax(const SummedCall& call) {
  const SummedTensor* x = given(call, "/0");
  return x == nullptr ? std::nullopt : std::optional(Summed{.scale = 2 * x->rms});
}
std::optional<Summed> log_softmax_backward(const SummedCall& call) {
  const SummedTensor* gradient = given(call, "/0");
  return gradient == nullptr ? std::nullopt : std::optional(Summed{.scale = 2 * gradient->rms});
}
// Gradients of the products of queries and keys pass a softmax, which takes from each row its mean.
std::optional<Summed> attention_backward(const SummedCall& call) {
  const SummedTensor *gradient = given(call, "/0"), *query = given(call, "/1"), *key = given(call, "/2"),
                     *value = given(call, "/3");
  if (gradient == nullptr || query == nullptr || key == nullptr || value == nullptr || query->shape.size() != 4)
    return std::nullopt;
  const double row = 2 * std::sqrt(length(*query, 3)) * gradient->rms * value->rms;
  if (call.result.path == "/0") return Summed{.scale = row * key->rms};
  if (call.result.path == "/1") return Summed{.scale = row * query->rms * query->count / std::max(key->count, 1.0)};
  return std::nullopt;
}

struct Entry {
  std::string_view op;
  std::optional<Summed> (*summed)(const SummedCall&);
};
constexpr Entry kSummed[] = {
    {"sum", sum},
    {"nansum", sum},
    {"mean", mean},
    {"mm", matmul},
    {"bmm", matmul},
    {"mv", matmul},
    {"dot", matmul},
    {"matmul", matmul},
    {"linear", matmul},
    {"addmm", addmm},
    {"addmv", addmm},
    {"baddbmm", addmm},
    {"convolution", convolution},
    {"mkldnn_convolution", convolution},
    {"_mkldnn_convolution", convolution},
    {"convolution_backward", convolution_backward},
    {"add", add},
    {"sub", add},
    {"rsub", add},
    {"lerp", add},
    {"cat", put_together},
    {"stack", put_together},
    {"where", put_together},
    {"copy", put_together},
    {"index_put", put_together},
    {"slice_scatter", put_together},
    {"select_scatter", put_together},
    {"native_layer_norm", layer_norm},
    {"native_batch_norm", batch_norm},
    {"_native_batch_norm_legit", batch_norm},
    {"_native_batch_norm_legit_functional", batch_norm},
    {"_batch_norm_with_update", batch_norm},
    {"_batch_norm_with_update_functional", batch_norm},
    {"native_layer_norm_backward", layer_norm_backward},
    {"native_batch_norm_backward", batch_norm_backward},
    {"batch_norm_backward", batch_norm_backward},
    {"native_group_norm_backward", group_norm_backward},
    {"_fused_rms_norm_backward", rms_norm_backward},
    {"_softmax_backward_data", softmax_backward},
    {"_log_softmax", log_softmax},
    {"_log_softmax_backward_data", log_softmax_backward},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", attention_backward},
    {"_scaled_dot_product_flash_attention_backward", attention_backward},
    {"_scaled_dot_product_efficient_attention_backward", attention_backward},
    {"_scaled_dot_product_cudnn_attention_backward", attention_backward},
};

}  // namespace

std::optional<SummedTensor> summed_tensor(std::string_view path, const TensorRecord& record) {
  const Stats& stats = record.fingerprint.stats;
  if (!record.has_fingerprint || stats.finite() == 0) return std::nullopt;
  return SummedTensor{.path = path,
                      .shape = record.shape,
                      .count = static_cast<double>(stats.count),
                      .rms = stats.l2 / std::sqrt(static_cast<double>(stats.finite())),
                      .max_abs = stats.max_abs};
}

std::optional<Summed> summed_in(const SummedCall& call) {
  constexpr std::string_view kForeach = "_foreach_";
  std::string_view name = plain_op(call.op);
  if (name.starts_with(kForeach)) name.remove_prefix(kForeach.size());
  const auto found = std::ranges::find(kSummed, name, &Entry::op);
  return found == std::end(kSummed) ? std::nullopt : found->summed(call);
}

}  // namespace ttap
