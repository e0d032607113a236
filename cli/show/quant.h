#pragma once

#include <string>

#include "cli/show/text.h"

// `ttap show` of a quantized tensor, or of one as it would be.
namespace ttap::cli {

struct ShowQuantOptions {
  std::string recipe = {};   // --quant
  std::string against = {};  // --against
};
void add_show_quant_options(Verb& verb, ShowQuantOptions& options);

// The picture of what a recipe would make of the tensor whose bytes are `view`.
Status add_what_if(TensorReport& report, const ShowQuantOptions& options, const TensorView& view, size_t worst);

// The picture of a tensor that is quantized. One whose parts are not there has none.
Status add_quantized(TensorReport& report, const ShowQuantOptions& options, size_t worst);

}  // namespace ttap::cli
