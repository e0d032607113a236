#include <charconv>
#include <string>

#include "quant/element_codes.h"
#include "ttap/quant.h"

namespace ttap {
namespace {

struct Base {
  std::string_view name;
  QuantFormat format;
};

QuantFormat fp8(QuantElement element, int64_t rows = 0, int64_t columns = 0) {
  QuantFormat format;
  format.element = element;
  format.block_rows = rows;
  format.block_columns = columns;
  return format;
}

QuantFormat mx(QuantElement element) {
  QuantFormat format = fp8(element, 1, 32);
  format.scale_type = ScaleType::kE8M0;
  if (element == QuantElement::kE2M1) format.packing = QuantPacking::kLowFirst;
  return format;
}

QuantFormat nvfp4() {
  QuantFormat format = fp8(QuantElement::kE2M1, 1, 16);
  format.packing = QuantPacking::kLowFirst;
  format.scale_type = ScaleType::kE4M3;
  format.global = GlobalScale::kFactor;
  return format;
}

const std::vector<Base>& bases() {
  // A name that another one begins with comes after it.
  static const std::vector<Base> bases = {
      {"fp8_e4m3fnuz", fp8(QuantElement::kE4M3Fnuz)},
      {"fp8_e5m2fnuz", fp8(QuantElement::kE5M2Fnuz)},
      {"fp8_e4m3", fp8(QuantElement::kE4M3)},
      {"fp8_e5m2", fp8(QuantElement::kE5M2)},
      {"fp8_block_1x128", fp8(QuantElement::kE4M3, 1, 128)},
      {"fp8_block_128x128", fp8(QuantElement::kE4M3, 128, 128)},
      {"mxfp8_e4m3", mx(QuantElement::kE4M3)},
      {"mxfp8_e5m2", mx(QuantElement::kE5M2)},
      {"mxfp6_e2m3", mx(QuantElement::kE2M3)},
      {"mxfp6_e3m2", mx(QuantElement::kE3M2)},
      {"mxfp4", mx(QuantElement::kE2M1)},
      {"nvfp4", nvfp4()},
      {"int8", fp8(QuantElement::kInt8, 1, 0)},
      {"int4", fp8(QuantElement::kInt4, 1, 128)},
  };
  return bases;
}

bool apply(std::string_view word, std::string_view base, QuantFormat& format) {
  const bool integer = is_integer(format.element);
  const bool plain_fp8 = base.starts_with("fp8_e");
  if (word == "tensor" && (integer || plain_fp8)) {
    format.block_rows = format.block_columns = 0;
  } else if ((word == "row" && plain_fp8) || (word == "channel" && integer)) {
    format.block_rows = 1;
    format.block_columns = 0;
  } else if (word == "asym" && integer) {
    format.zero_point = ZeroPoint::kInteger;
  } else if (word == "2d" && base == "nvfp4") {
    format.shared_rows = 16;
  } else if (word == "row" && base == "nvfp4") {
    format.global = GlobalScale::kAmax;
    format.global_per_row = true;
  } else if (word.starts_with("group") && integer) {
    const std::string_view digits = word.substr(5);
    int64_t group = 0;
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), group);
    if (problem != std::errc() || end != digits.data() + digits.size() || group < 1) return false;
    format.block_rows = 1;
    format.block_columns = group;
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> quant_format_names() {
  std::vector<std::string> names;
  for (const Base& base : bases()) names.emplace_back(base.name);
  return names;
}

Result<QuantFormat> quant_format(std::string_view name) {
  std::string full(name);
  for (const std::string_view shorter : {"fp8", "mxfp8"})
    if (name == shorter || (name.starts_with(shorter) &&
                            (name.substr(shorter.size()) == "_row" || name.substr(shorter.size()) == "_tensor")))
      full.insert(shorter.size(), "_e4m3");
  for (const Base& base : bases()) {
    std::string_view rest = full;
    if (!rest.starts_with(base.name)) continue;
    rest.remove_prefix(base.name.size());
    if (!rest.empty() && rest.front() != '_') continue;
    QuantFormat format = base.format;
    format.name = full;
    while (!rest.empty()) {
      rest.remove_prefix(1);
      const std::string_view word = rest.substr(0, rest.find('_'));
      if (!apply(word, base.name, format)) {
        return Error{ErrorCode::kInvalidArgument, "'" + std::string(word) + "' says nothing of " +
                                                      std::string(base.name) + ", in '" + std::string(name) + "'"};
      }
      rest.remove_prefix(word.size());
    }
    if (format.element == QuantElement::kInt4) format.packing = QuantPacking::kLowFirst;
    return format;
  }
  std::string known;
  for (const Base& base : bases()) known += (known.empty() ? "" : ", ") + std::string(base.name);
  Error error{ErrorCode::kInvalidArgument, "no quantized format is called '" + std::string(name) + "'"};
  error.hint = "there are " + known;
  return error;
}

}  // namespace ttap
