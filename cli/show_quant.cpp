#include "cli/show_quant.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "analyze/real_values.h"

namespace ttap::cli {
namespace {

// Where the grid of blocks begins: at --index, of a tensor seen as a matrix.
QuantPictureOptions picture_options(const TensorReport& report, size_t worst) {
  QuantPictureOptions options;
  options.worst = worst;
  const auto shape = report.tensor.shape;
  if (shape.empty() || report.at.empty()) return options;
  const auto at = [&](size_t i) {
    const int64_t index = i < report.at.size() ? report.at[i] : 0;
    return index < 0 ? index + shape[i] : index;
  };
  for (size_t i = 0; i + 1 < shape.size(); ++i) options.first_row = options.first_row * shape[i] + at(i);
  options.first_column = at(shape.size() - 1);
  return options;
}

}  // namespace

void add_show_quant_options(CLI::App& verb, ShowQuantOptions& options) {
  verb.add_option("--quant", options.recipe, "What this quantized format would make of the tensor: nvfp4, mxfp8, ...")
      ->type_name("FORMAT");
}

Status add_what_if(TensorReport& report, const ShowQuantOptions& options, const TensorView& view, size_t worst) {
  if (options.recipe.empty()) return {};
  auto format = quant_format(options.recipe);
  if (!format.ok()) {
    Error error = std::move(format).error();
    error.message = fmt::format("--quant: {}", error.message);
    return error;
  }
  if (!is_real(view.dtype))
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("--quant: a tensor of {} is not quantized", name(view.dtype)),
                 .hint = "f16, bf16, f32 and f64 are"};
  TTAP_ASSIGN(report.quant, quant_picture(view, *format, picture_options(report, worst)));
  report.what_if = true;
  return {};
}

}  // namespace ttap::cli
