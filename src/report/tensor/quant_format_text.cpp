#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "quant/format_words.h"
#include "report/tensor/quant_picture_report.h"
#include "report/text/text.h"
#include "ttap/group.h"

namespace ttap {
namespace {

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& letter : result) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return result;
}

bool is_integer_word(std::string_view element) { return element.find("int") != std::string_view::npos; }

// In the tensor, which may be stored the other way round.
std::string blocks_text(const QuantFormat& format) {
  int64_t rows = format.shared_rows > 1 ? format.shared_rows : format.block_rows;
  int64_t columns = format.block_columns;
  if (format.stored_transposed) std::swap(rows, columns);
  if (rows == 0 && columns == 0) return "one scale";
  if (rows == 1 && columns == 0) return "a scale per row";
  if (rows == 0 && columns == 1) return "a scale per column";
  if (rows == 1 && columns > 1) return fmt::format("blocks of {} along rows", columns);
  if (columns == 1 && rows > 1) return fmt::format("blocks of {} along columns", rows);
  const auto side = [](int64_t length) { return length == 0 ? std::string("all") : fmt::format("{}", length); };
  return fmt::format("blocks of {} × {}", side(rows), side(columns));
}

std::string_view global_word(GlobalScale global) {
  switch (global) {
    case GlobalScale::kFactor: return "global scale";
    case GlobalScale::kDivisor: return "global divisor";
    case GlobalScale::kAmax: return "global amax";
    case GlobalScale::kNone: break;
  }
  return "";
}

// What comes before the global scale, and what comes after.
std::string before_global(const QuantFormat& format) {
  std::string text =
      fmt::format("{}, {}, {} {}", quant_format_title(format), blocks_text(format),
                  blocks_text(format) == "one scale" ? "of" : "scales", upper(word_for(format.scale_type)));
  if (format.scale_layout != ScaleLayout::kCompact) text += fmt::format(" {}", word_for(format.scale_layout));
  if (format.scale_divides) text += " that divide";
  return text;
}

std::string after_global(const QuantFormat& format) {
  std::string text;
  if (format.zero_point == ZeroPoint::kInteger || format.zero_point == ZeroPoint::kValue) text += ", zero points";
  if (format.stored_transposed) text += ", stored transposed";
  if (format.rotated) text += ", rotated: it does not decode to what was quantized";
  if (!format.source.empty()) text += fmt::format(", from {}", printable(format.source));
  return text;
}

}  // namespace

std::string quant_format_title(const QuantFormat& format) {
  const std::string element(word_for(format.element));
  if (is_integer_word(element)) return upper(element);
  const int bits = bits_of(format.element);
  if (format.element == QuantElement::kE2M1) {
    if (format.scale_type == ScaleType::kE8M0) return "MXFP4";
    return format.scale_type == ScaleType::kE4M3 ? "NVFP4" : "FP4";
  }
  return fmt::format("{}FP{} ({})", format.scale_type == ScaleType::kE8M0 ? "MX" : "", bits, upper(element));
}

std::string quant_format_text(const QuantFormat& format) {
  std::string text = before_global(format);
  if (format.global != GlobalScale::kNone)
    text += fmt::format(", {}{}", global_word(format.global), format.global_per_row ? " per row" : "");
  return text + after_global(format);
}

std::string quant_format_text(const QuantPicture& picture) {
  if (picture.global_count == 0) return quant_format_text(picture.format);
  std::string text = before_global(picture.format);
  if (picture.global_count == 1)
    text += fmt::format(", {} {}", global_word(picture.format.global),
                        statistic_text(picture.globals.front(), DType::kF64, 4));
  else
    text += fmt::format(", {} {}s", picture.global_count, global_word(picture.format.global));
  return text + after_global(picture.format);
}

std::string quant_name(const TensorRecord& tensor) {
  if (tensor.group.empty()) return "";
  const auto description = group_description_from_json(tensor.group);
  if (!description.ok()) return "?";
  return printable(description->format.name.empty() ? quant_format_title(description->format)
                                                    : description->format.name);
}

}  // namespace ttap
