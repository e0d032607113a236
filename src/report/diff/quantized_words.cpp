#include "report/diff/quantized_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/tensor/quant_picture_report.h"
#include "report/tensor/quant_words.h"
#include "report/text/text.h"

namespace ttap {
namespace {

std::string layer_name(const PassDiff& pass, const QuantLayer& layer) {
  const TensorRecord record = record_of(pass, pass.tensors[layer.weight]);
  return printable(record.path == "/weight" ? std::string(record.name) : to_string(record.key()));
}

std::string_view side_name(const QuantizedWeights& weights) { return weights.of_b ? "B" : "A"; }

const std::string& format_name(const QuantLayer& layer) { return layer.outcome.recipe.format.name; }

std::string format_names(const QuantizedWeights& weights) {
  std::vector<std::string> names;
  for (const QuantLayer& layer : weights.layers)
    if (std::ranges::find(names, format_name(layer)) == names.end()) names.push_back(format_name(layer));
  std::ranges::sort(names);
  return fmt::format("{}", fmt::join(names, ", "));
}

// In the middle of all but the first, which is the one that is named.
double middle_error(const QuantizedWeights& weights) {
  std::vector<double> errors;
  for (size_t i = 1; i < weights.layers.size(); ++i) errors.push_back(weights.layers[i].error());
  std::ranges::sort(errors);
  return errors[errors.size() / 2];
}

std::string error_of(const QuantLayer& layer) {
  return fmt::format("{:.2g} of its {}", layer.error(), layer.own_error == layer.own_error ? "output" : "weight");
}

// Why a layer is an outlier.
std::string suffering_text(const QuantizedWeights& weights, const QuantLayer& layer) {
  const QuantOutcome& outcome = layer.outcome;
  const auto usual = [](double percent) {
    return std::isnan(percent) ? std::string() : fmt::format(", where {} are usual", percent_text(percent));
  };
  switch (outcome.harm) {
    case QuantHarm::kOverflow:
      return fmt::format("{} of its values are beyond the end of the format{}",
                         percent_text(outcome.stats.overflow_percent()), usual(outcome.recipe.usual_overflow));
    case QuantHarm::kUnderflow:
      return fmt::format("{} of its values become zero{}", percent_text(outcome.stats.underflow_percent()),
                         usual(outcome.recipe.usual_underflow));
    case QuantHarm::kError:
      return fmt::format("its values keep {}, where {} are usual", sqnr_text(outcome.stats.sqnr_db),
                         sqnr_text(outcome.recipe.usual_sqnr_db));
    case QuantHarm::kNone: break;
  }
  return fmt::format("the error that it adds is {}, {:.2g} times that of most layers", error_of(layer),
                     layer.error() / middle_error(weights));
}

}  // namespace

std::string quantized_sentence(const DiffReport& report) {
  const PassDiff* pass = report.quantized();
  if (pass == nullptr) return {};
  const QuantizedWeights& weights = pass->quantized;
  const QuantLayer& first = weights.layers.front();
  const std::string whose = fmt::format("{}'s weights {} quantized ({})", side_name(weights),
                                        weights.inferred ? "look" : "are", format_names(weights));
  if (first.is_outlier)
    return fmt::format("{}, and {} suffers{}: {}", whose, layer_name(*pass, first),
                       weights.layers.size() > 1 && weights.layers[1].is_outlier ? " most" : "",
                       suffering_text(weights, first));
  return fmt::format(
      "{}, and {} as {} format explains; {} adds the largest error, {}{}", whose,
      weights.layers.size() == 1 ? "1 layer is" : fmt::format("all {} layers are", weights.layers.size()),
      weights.layers.size() == 1 ? "its" : "their", layer_name(*pass, first),
      std::isnan(first.added) ? "" : fmt::format("{:.2g}, which is ", first.added), error_of(first));
}

std::vector<std::string> quantized_lines(const DiffReport& report) {
  std::vector<std::string> lines;
  const PassDiff* pass = report.quantized();
  if (pass == nullptr) return lines;
  const QuantizedWeights& weights = pass->quantized;
  const QuantLayer& first = weights.layers.front();
  std::map<std::string, size_t> formats;
  for (const QuantLayer& layer : weights.layers) ++formats[quant_format_text(layer.outcome.recipe.format)];
  for (const auto& [text, count] : formats)
    lines.push_back(fmt::format("of {}: {} in {}", side_name(weights), count_text(count, "weight", "weights"), text));
  if (weights.inferred)
    lines.push_back("no scales were recorded: the format is told from the values, which are on its grid");
  lines.push_back(fmt::format("the weight of {} keeps {}, where {} are usual", layer_name(*pass, first),
                              sqnr_text(first.outcome.stats.sqnr_db), sqnr_text(first.outcome.recipe.usual_sqnr_db)));
  if (weights.layers.size() > 1) {
    const QuantLayer& largest = *std::ranges::max_element(weights.layers.begin() + 1, weights.layers.end(), {},
                                                          [](const QuantLayer& layer) { return layer.error(); });
    lines.push_back(fmt::format("by itself that is an error of {}; of {} the median is {:.2g}, the most {:.2g} ({})",
                                error_of(first), count_text(weights.layers.size() - 1, "other layer", "other layers"),
                                middle_error(weights), largest.error(), layer_name(*pass, largest)));
  }
  const auto outliers = std::ranges::count_if(weights.layers, &QuantLayer::is_outlier);
  for (int64_t i = 1; i < std::min<int64_t>(outliers, 4); ++i) {
    const QuantLayer& layer = weights.layers[static_cast<size_t>(i)];
    lines.push_back(fmt::format("{} suffers too: {}", layer_name(*pass, layer), suffering_text(weights, layer)));
  }
  if (outliers > 4) lines.push_back(fmt::format("and {} more", outliers - 4));
  if (const size_t sound = weights.layers.size() - static_cast<size_t>(outliers); outliers > 0 && sound > 0)
    lines.push_back(
        fmt::format("{} as their format explains", count_text(sound, "other layer is", "other layers are")));
  return lines;
}

void write_quantized(JsonWriter& json, const DiffReport& report) {
  const PassDiff* pass = report.quantized();
  if (pass == nullptr) {
    json.null();
    return;
  }
  const QuantizedWeights& weights = pass->quantized;
  json.begin_object().member("side", weights.of_b ? "b" : "a").member("inferred", weights.inferred);
  json.member("pass", static_cast<uint64_t>(pass - report.passes.data())).key("layers").begin_list();
  for (const QuantLayer& layer : weights.layers) {
    json.begin_line().member("layer", layer_name(*pass, layer)).member("weight", layer.weight);
    json.member("format", format_name(layer)).member("outlier", layer.is_outlier);
    json.key("harm");
    layer.outcome.harm == QuantHarm::kNone ? json.null() : json.value(to_string(layer.outcome.harm));
    json.member("own_error", layer.own_error).member("added", layer.added).member("weight_error", layer.weight_error);
    json.member("sqnr_db", layer.outcome.stats.sqnr_db).member("usual_sqnr_db", layer.outcome.recipe.usual_sqnr_db);
    json.member("underflow_percent", layer.outcome.stats.underflow_percent());
    json.member("usual_underflow_percent", layer.outcome.recipe.usual_underflow);
    json.member("overflow_percent", layer.outcome.stats.overflow_percent());
    json.member("usual_overflow_percent", layer.outcome.recipe.usual_overflow).end();
  }
  json.end().end();
}

}  // namespace ttap
