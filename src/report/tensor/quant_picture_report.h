#pragma once

#include <string>

#include "analyze/compare/quant_picture.h"
#include "report/text/json_writer.h"
#include "report/text/output.h"
#include "ttap/record.h"

// A quantized tensor, for people and for programs.
namespace ttap {

// NVFP4, blocks of 16 along rows, scales E4M3 swizzled, global amax 3.2, from torchao
std::string quant_format_text(const QuantFormat& format);
std::string quant_format_text(const QuantPicture& picture);  // with the global scale
// NVFP4, MXFP8 (E4M3), FP8 (E4M3), INT4
std::string quant_format_title(const QuantFormat& format);

// nvfp4: what a record is quantized to; empty when it is not.
std::string quant_name(const TensorRecord& tensor);

// Sections below each other: against the twin, the grid, the codes, the scales.
void draw_quant_picture(const QuantPicture& picture, bool log_scale, Output& out);

// As the value of a key: an object.
void write_quant_picture(JsonWriter& json, const QuantPicture& picture);

}  // namespace ttap
