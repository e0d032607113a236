#include "report/text/text.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <ctime>

#include "ttap/key.h"

namespace ttap {
namespace {

// On a terminal: two for East Asian wide characters and most emoji, none for combining marks.
size_t columns_of(uint32_t c) {
  if (c < 0x300) return 1;
  if (c < 0x370) return 0;
  const bool wide = (c >= 0x1100 && c <= 0x115F) || (c >= 0x2E80 && c <= 0xA4CF) || (c >= 0xAC00 && c <= 0xD7A3) ||
                    (c >= 0xF900 && c <= 0xFAFF) || (c >= 0xFE30 && c <= 0xFE6F) || (c >= 0xFF00 && c <= 0xFF60) ||
                    (c >= 0xFFE0 && c <= 0xFFE6) || (c >= 0x1F300 && c <= 0x1FAFF) || (c >= 0x20000 && c <= 0x3FFFD);
  return wide ? 2 : 1;
}

bool is_integer(DType dtype) {
  const DTypeKind kind = dtype_info(dtype).kind;
  return kind == DTypeKind::kSigned || kind == DTypeKind::kUnsigned || kind == DTypeKind::kBool;
}

}  // namespace

size_t display_width(std::string_view text) {
  size_t width = 0;
  for (size_t i = 0; i < text.size();) {
    const Utf8Character c = decode_utf8(text.substr(i));
    width += columns_of(c.code);
    i += c.bytes;
  }
  return width;
}

std::string shorten(std::string_view text, size_t width, bool unicode) {
  if (display_width(text) <= width) return std::string(text);
  const std::string_view gap = unicode ? "…" : "..";
  const size_t gap_width = display_width(gap);
  if (width <= gap_width) return std::string(gap).substr(0, unicode ? gap.size() : width);
  // The end says more than the beginning: model.layers.11.self_attn.o_proj.
  const size_t tail_columns = (width - gap_width) * 2 / 3;
  const size_t head_columns = width - gap_width - tail_columns;
  size_t head = 0;  // bytes kept at the front
  size_t tail = 0;  // where the kept end begins
  size_t columns = 0;
  const size_t all = display_width(text);
  for (size_t i = 0; i < text.size();) {
    const Utf8Character c = decode_utf8(text.substr(i));
    columns += columns_of(c.code);
    i += c.bytes;
    if (columns <= head_columns) head = i;
    tail = i;
    if (all - columns <= tail_columns) break;
  }
  return fmt::format("{}{}{}", text.substr(0, head), gap, text.substr(tail));
}

std::string key_text(const TensorRecord& tensor) { return printable(to_string(tensor.key())); }

std::string shape_text(std::span<const int64_t> numbers) { return fmt::format("[{}]", fmt::join(numbers, ", ")); }

std::string dtype_text(const TensorRecord& tensor) {
  return std::string(dtype_name(tensor.true_dtype.value_or(tensor.dtype)));
}

std::string bytes_text(uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  // 1023.95 would print as 1024.0.
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string share_text(uint64_t part, uint64_t whole) {
  if (whole == 0) return "0 %";
  if (part == whole) return "100 %";
  const double percent = 100 * (static_cast<double>(part) / static_cast<double>(whole));
  if (percent > 0 && percent < 0.01) return "<0.01 %";
  if (percent > 99.99 && percent < 100) return ">99.99 %";
  return fmt::format("{:.3g} %", percent);
}

std::string count_text(uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string time_text(uint64_t unix_ns) {
  const auto seconds = static_cast<time_t>(unix_ns / 1'000'000'000);
  std::tm parts{};
  if (::localtime_r(&seconds, &parts) == nullptr) return "?";
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", parts);
}

std::string duration_text(uint64_t ns) {
  const double value = static_cast<double>(ns);
  if (ns < 1'000) return fmt::format("{} ns", ns);
  if (ns < 1'000'000) return fmt::format("{:.2f} us", value / 1e3);
  if (ns < 1'000'000'000) return fmt::format("{:.2f} ms", value / 1e6);
  return fmt::format("{:.2f} s", value / 1e9);
}

std::string statistic_text(double value, DType dtype, int digits) {
  if (std::isnan(value)) return "-";
  // Up to 2^53 a double holds an integer exactly; beyond, it is a rounded one and shown as such.
  if (is_integer(dtype) && value == std::floor(value) && std::fabs(value) <= 9007199254740992.0)
    return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}g}", value, digits);
}

std::string nonfinite_text(const Stats& stats) {
  std::string text;
  const auto add = [&](uint64_t count, std::string_view what) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
  };
  add(stats.nan, "NaN");
  add(stats.pos_inf, "+Inf");
  add(stats.neg_inf, "-Inf");
  return text;
}

std::string number_text(const Number& number, int digits) {
  if (const auto* value = std::get_if<int64_t>(&number)) return fmt::format("{}", *value);
  if (const auto* value = std::get_if<uint64_t>(&number)) return fmt::format("{}", *value);
  const double value = std::get<double>(number);
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Inf" : "+Inf";
  return fmt::format("{:.{}g}", value, digits);
}

std::string place_text(const Located& value, DType dtype, std::span<const int64_t> shape) {
  std::string text = shape_text(index_of(value.element, shape));
  if (dtype_info(dtype).kind == DTypeKind::kComplex) return text + (value.part == 0 ? ".real" : ".imag");
  if (dtype_info(dtype).values == 2) return text + (value.part == 0 ? ".low" : ".high");
  return text;
}

std::string shell_quoted(std::string_view text) {
  const bool plain = !text.empty() && text.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                          "_-./:@%+,=") == std::string_view::npos;
  if (plain) return std::string(text);
  std::string out = "'";
  for (char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

}  // namespace ttap
