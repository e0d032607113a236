#include "cli/show/quant.h"

#include <fmt/format.h>

#include "analyze/check/quant_groups.h"
#include "analyze/values/real_values.h"
#include "cli/arguments/against.h"
#include "cli/arguments/command_line.h"

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

void add_show_quant_options(Verb& verb, ShowQuantOptions& options) {
  verb.add_option("--quant", options.recipe, "What this quantized format would make of the tensor: nvfp4, mxfp8, ...")
      .type_name("FORMAT");
  verb.add_option("--against", options.against,
                  "The high-precision run that a quantized tensor is held against, by its key")
      .type_name("RUN");
}

Status add_what_if(TensorReport& report, const ShowQuantOptions& options, const TensorView& view, size_t worst) {
  if (options.recipe.empty() || report.quant) return {};
  auto format = quant_format(options.recipe);
  if (!format.ok()) {
    Error error = std::move(format).error();
    error.message = fmt::format("--quant: {}", error.message);
    return error;
  }
  if (!is_real(view.dtype))
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("--quant: a tensor of {} is not quantized", dtype_name(view.dtype)),
                 .hint = "f16, bf16, f32 and f64 are"};
  TTAP_ASSIGN(report.quant, quant_picture(view, *format, picture_options(report, worst)));
  report.what_if = true;
  return {};
}

Status add_quantized(TensorReport& report, const ShowQuantOptions& options, size_t worst) {
  TTAP_ASSIGN(Against against, Against::open(options.against));
  if (report.tensor.group.empty()) {
    if (options.against.empty()) return {};
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("--against: '{}' is not quantized", to_string(report.tensor.key())),
                 .hint = "`ttap diff` compares two runs; --quant FORMAT shows what quantizing would do"};
  }
  if (!options.recipe.empty())
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("--quant: '{}' is quantized already", to_string(report.tensor.key())),
                 .hint = "give the high-precision run, in which it is not"};
  TTAP_ASSIGN(const GroupParts parts, group_of(report.pass, report.index));
  const auto group = read_group(report.pass, parts);
  if (!group.ok()) {
    if (group.error().code == ErrorCode::kNotRecorded) return {};
    return group.error();
  }
  TTAP_ASSIGN(const Pass* twins, against.pass_for(report.selected));
  const auto twin = find_quant_twin(report.pass, report.index, twins);
  if (!twin && !options.against.empty())
    return Error{.code = ErrorCode::kNotFound,
                 .message = fmt::format("no high-precision tensor '{}' with its bytes", to_string(report.tensor.key())),
                 .path = options.against,
                 .hint = "`ttap ls` lists the keys"};
  std::optional<TensorView> view;
  if (twin && !parts.format.rotated) {
    TTAP_ASSIGN(view, twin->pass->read(twin->tensor));
  }
  TTAP_ASSIGN(report.quant, quant_picture(*group, view ? &*view : nullptr, picture_options(report, worst)));
  return {};
}

}  // namespace ttap::cli
