#include "analyze/diff/blame/quant_layers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "analyze/check/quant_groups.h"
#include "analyze/check/quant_inference.h"
#include "analyze/values/real_values.h"

namespace ttap {
namespace {

constexpr double kUnknownError = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kRowsMultiplied = 8;  // of a layer's input
constexpr size_t kFewLayers = 4;       // of which no median tells what is usual
constexpr double kLeastUnrelated = 1;  // the relative error of what has nothing to do with the other

bool is_weight(const TensorRecord& record) {
  return record.role == "param" && record.shape.size() >= 2 && is_real(dtype_of(record));
}

// Of `weight` · x, both with `columns` to a row; 8 lanes that a compiler makes vectors of.
double dot(const float* weight, const float* x, size_t columns) {
  float lanes[8] = {};
  size_t k = 0;
  for (; k + 8 <= columns; k += 8)
    for (size_t lane = 0; lane < 8; ++lane) lanes[lane] += weight[k + lane] * x[k + lane];
  double sum = 0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  for (; k < columns; ++k) sum += static_cast<double>(weight[k]) * static_cast<double>(x[k]);
  return sum;
}

class LayerErrors {
 public:
  LayerErrors(const Side& plain, const Side& quantized, uint32_t Match::*in_plain, uint32_t Match::*in_quantized,
              std::span<const TensorDiff> tensors)
      : plain_(plain), quantized_(quantized), in_plain_(in_plain), in_quantized_(in_quantized), tensors_(tensors) {
    for (uint32_t i = 0; i < tensors.size(); ++i) {
      const uint32_t record = tensors[i].match.*in_quantized;
      if (record == kNoTensor || quantized.tensor(record).role != "in") continue;
      inputs_.try_emplace(std::string(quantized.tensor(record).name), record);
    }
  }

  // Those whose parts were recorded.
  std::optional<QuantLayer> of_parts(uint32_t i) {
    const auto [plain, quantized] = records(i);
    const TensorRecord record = quantized_.tensor(quantized);
    const auto format = quantized_as(record);
    if (!format || format->rotated || !plain_.tensor(plain).group.empty()) return std::nullopt;
    const auto before = plain_.read(plain);
    if (!before.ok()) return std::nullopt;
    auto stats = quantized_.quant_stats(quantized, before->view);
    return stats.ok() ? std::optional(layer(i, recipe_of(*format), std::move(stats).value(), before->view))
                      : std::nullopt;
  }

  // Those that were decoded before they were recorded.
  std::optional<QuantLayer> of_values(uint32_t i) {
    const auto [plain, quantized] = records(i);
    const auto before = plain_.read(plain), after = quantized_.read(quantized);
    if (!before.ok() || !after.ok()) return std::nullopt;
    const auto recipe = inference_.format_of(before->view, after->view);
    if (!recipe) return std::nullopt;
    return layer(i, *recipe, quant_statistics_of_values(before->view, after->view), before->view);
  }

  // None where most of these are on no grid: they were trained or loaded differently.
  std::vector<QuantLayer> of_all_values(std::span<const uint32_t> weights) {
    std::vector<QuantLayer> found;
    for (const uint32_t i : weights)
      if (auto layer = of_values(i)) found.push_back(std::move(*layer));
    if (2 * found.size() < weights.size()) found.clear();
    return found;
  }

 private:
  std::pair<uint32_t, uint32_t> records(uint32_t i) const {
    return {tensors_[i].match.*in_plain_, tensors_[i].match.*in_quantized_};
  }

  const QuantRecipe& recipe_of(const QuantFormat& format) {
    const auto [known, is_new] = recipes_.try_emplace(to_json(format));
    if (is_new) {
      const auto usual = quant_recipe(format);
      known->second = usual.ok() ? *usual : QuantRecipe{format, kUnknownError, kUnknownError, kUnknownError};
    }
    return known->second;
  }

  QuantLayer layer(uint32_t i, const QuantRecipe& recipe, QuantStats stats, const TensorView& before) {
    QuantLayer made{.weight = i,
                    .outcome = judge_quantized(recipe, std::move(stats), true),
                    .own_error = kUnknownError,
                    .added = kUnknownError,
                    .weight_error = 0};
    multiply(i, before, made);
    made.weight_error = std::pow(10, -made.outcome.stats.sqnr_db / 20);
    return made;
  }

  void multiply(uint32_t i, const TensorView& before, QuantLayer& layer) const {
    const uint32_t quantized = records(i).second;
    const TensorRecord weight = quantized_.tensor(quantized);
    const auto input = inputs_.find(std::string(weight.name));
    if (input == inputs_.end() || weight.shape.size() != 2) return;
    const TensorRecord record = quantized_.tensor(input->second);
    if (record.shape.empty() || record.shape.back() != weight.shape[1] || !is_real(dtype_of(record))) return;
    const auto after = quantized_.read(quantized), given = quantized_.read(input->second);
    if (!after.ok() || !given.ok()) return;
    const std::vector<float> x = floats_of(given->view), a = floats_of(before), b = floats_of(after->view);
    const auto rows = static_cast<size_t>(weight.shape[0]), columns = static_cast<size_t>(weight.shape[1]);
    const size_t tokens = columns == 0 ? 0 : x.size() / columns;
    double errors = 0, squares = 0;
    uint64_t products = 0;
    const size_t step = std::max<size_t>(1, tokens / kRowsMultiplied);
    for (size_t row = 0; row < rows; ++row)
      for (size_t token = 0; token < tokens; token += step) {
        const double right = dot(&a[row * columns], &x[token * columns], columns);
        const double wrong = dot(&b[row * columns], &x[token * columns], columns);
        ++products;
        squares += right * right;
        errors += (wrong - right) * (wrong - right);
      }
    if (!(squares > 0)) return;
    layer.own_error = std::sqrt(errors / squares);
    layer.added = std::sqrt(errors / static_cast<double>(products));
  }

  const Side &plain_, &quantized_;
  uint32_t Match::*in_plain_;
  uint32_t Match::*in_quantized_;
  std::span<const TensorDiff> tensors_;
  std::map<std::string, uint32_t> inputs_;  // the first of each module, by its name
  std::map<std::string, QuantRecipe> recipes_;
  QuantInference inference_;
};

void find_outliers(std::vector<QuantLayer>& layers) {
  for (QuantLayer& layer : layers) {
    layer.is_outlier = layer.outcome.harm != QuantHarm::kNone;
    std::vector<double> others;
    for (const QuantLayer& other : layers)
      if (&other != &layer && other.outcome.recipe.format.name == layer.outcome.recipe.format.name &&
          std::isnan(other.own_error) == std::isnan(layer.own_error))
        others.push_back(other.error());
    if (others.size() < kFewLayers) continue;
    std::ranges::nth_element(others, others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2));
    const double usual = std::pow(10, -layer.outcome.recipe.usual_sqnr_db / 20);
    layer.is_outlier |=
        layer.error() > kOutlierFactor * others[others.size() / 2] && layer.error() > kOutlierFactor * usual;
  }
  const auto size = [](const QuantLayer& layer) {
    return layer.is_outlier || std::isnan(layer.added) ? layer.error() : layer.added;
  };
  std::ranges::stable_sort(layers, [&](const QuantLayer& a, const QuantLayer& b) {
    return std::pair(!a.is_outlier, -size(a)) < std::pair(!b.is_outlier, -size(b));
  });
}

}  // namespace

QuantizedWeights find_quantized_weights(const Side& a, const Side& b, std::span<const TensorDiff> tensors) {
  std::vector<uint32_t> of_a, of_b, plain;
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    const Match& match = tensors[i].match;
    if (match.a == kNoTensor || match.b == kNoTensor || tensors[i].verdict == Verdict::kIdentical) continue;
    const TensorRecord in_a = a.tensor(match.a), in_b = b.tensor(match.b);
    if (!is_weight(in_a) || !is_weight(in_b) || !std::ranges::equal(in_a.shape, in_b.shape)) continue;
    if (in_a.group.empty() && in_b.group.empty() && tensors[i].evidence == Evidence::kValues) plain.push_back(i);
    if (in_a.group.empty() != in_b.group.empty()) (in_a.group.empty() ? of_b : of_a).push_back(i);
  }
  QuantizedWeights found;
  found.of_b = of_b.size() >= of_a.size();
  LayerErrors to_b(a, b, &Match::a, &Match::b, tensors), to_a(b, a, &Match::b, &Match::a, tensors);
  for (const uint32_t i : found.of_b ? of_b : of_a)
    if (auto layer = (found.of_b ? to_b : to_a).of_parts(i)) found.layers.push_back(std::move(*layer));
  if (found.any() || plain.empty()) {
    find_outliers(found.layers);
    return found;
  }
  std::ranges::stable_sort(plain, {}, [&](uint32_t i) { return a.tensor(tensors[i].match.a).byte_count; });
  found.inferred = true;
  for (const bool of_b_now : {true, false}) {
    found.of_b = of_b_now;
    found.layers = (of_b_now ? to_b : to_a).of_all_values(plain);
    if (found.any()) break;
  }
  find_outliers(found.layers);
  return found;
}

void inherit_from_quantized_weights(const Side& a, const QuantizedWeights& weights,
                                    std::span<const SettingDiff> settings, std::span<TensorDiff> tensors) {
  if (!weights.any()) return;
  const uint32_t first = std::ranges::min_element(weights.layers, {}, &QuantLayer::weight)->weight;
  for (uint32_t i = first + 1; i < tensors.size(); ++i) {
    TensorDiff& tensor = tensors[i];
    const bool is_related = is_measured(tensor) && relative_error(tensor) < kLeastUnrelated;
    if (tensor.cause != Cause::kIntroduced || tensor.is_wrong || !is_related) continue;
    const std::string_view name = a.tensor(tensor.match.a).name;
    if (std::ranges::any_of(settings,
                            [&](const SettingDiff& each) { return each.changes_result() && each.call_a == name; }))
      continue;
    tensor.cause = Cause::kInherited;
    tensor.source = first;
    tensor.reason = "what comes before it has the error of quantized weights";
  }
}

}  // namespace ttap
