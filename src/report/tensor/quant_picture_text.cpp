#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "report/tensor/quant_picture_report.h"
#include "report/tensor/quant_words.h"
#include "report/text/bar.h"
#include "report/text/text.h"

namespace ttap {
namespace {

constexpr int kPictureDigits = 3;
// Of the picture of the scales, in characters.
constexpr uint64_t kMapRows = 16;
constexpr uint64_t kMapColumns = 64;

std::string real(double value, int digits = kPictureDigits) { return statistic_text(value, DType::kF64, digits); }

void heading(Output& out, std::string_view title, std::string_view detail) {
  out.write("\n");
  out.write(Style::kBold, title);
  out.print(" ({})\n", detail);
}

void draw_against(const QuantPicture& picture, Output& out) {
  const QuantStats& stats = *picture.stats;
  heading(out, "against the high-precision tensor", fmt::format("{}", count_text(stats.count, "value", "values")));
  const auto fact = [&](std::string_view name, const std::string& text, std::string_view more,
                        const std::string& other) {
    out.write(Style::kDim, fmt::format("  {:<11}", name));
    out.print("{:<20}", text);
    out.write(Style::kDim, fmt::format("  {:<14}", more));
    out.print("{}\n", other);
  };
  fact("SQNR", sqnr_text(stats.sqnr_db), "mse", real(stats.mse));
  fact("underflow", percent_text(stats.underflow_percent()), "overflow", percent_text(stats.overflow_percent()));
  fact("range", range_text(stats.dynamic_range), "in a block", range_text(stats.block_dynamic_range));
  fact("max error", real(stats.max_error), "not finite", fmt::format("{}", stats.not_finite));
  for (const WorstPair& pair : picture.worst) {
    const auto columns = static_cast<uint64_t>(picture.columns);
    out.print("  [{}, {}]  {} became {}\n", pair.element / columns, pair.element % columns, number_text(pair.a, 6),
              number_text(pair.b, 6));
  }
}

// Where a block ends between two rows or columns that are shown, and where some are left out.
struct Seam {
  bool border = false;
  bool gap = false;
};
Seam seam_before(const std::vector<int64_t>& shown, size_t i, int64_t block) {
  if (i == 0) return {};
  return {.border = shown[i] / block != shown[i - 1] / block, .gap = shown[i] != shown[i - 1] + 1};
}

void draw_grid(const QuantPicture& picture, Output& out) {
  const BlockGrid& grid = picture.grid;
  heading(out, "values",
          fmt::format("blocks of {} × {}, the scale of each before it", picture.block_rows, picture.block_columns));
  if (grid.values.empty()) return out.write("  none: a dimension is 0\n");
  const size_t columns = grid.columns.size();
  std::vector<std::string> values, scales;
  size_t width = 0, scale_width = 0, label_width = 0;
  for (size_t i = 0; i < grid.values.size(); ++i) {
    values.push_back(real(grid.values[i]));
    scales.push_back(fmt::format("×{}", real(grid.scales[i])));
    width = std::max(width, values.back().size());
    scale_width = std::max(scale_width, display_width(scales.back()));
  }
  for (const int64_t row : grid.rows) label_width = std::max(label_width, fmt::format("{}", row).size());
  for (size_t row = 0; row < grid.rows.size(); ++row) {
    const Seam above = seam_before(grid.rows, row, picture.block_rows);
    if (above.gap && !above.border) out.print("  {:>{}}\n", "...", label_width + 3);
    // A line between blocks of one row each would only take room.
    if (above.border && picture.block_rows > 1) out.print("  {:->{}}\n", "", label_width + 2);
    out.write(Style::kDim, fmt::format("  {:>{}} ", grid.rows[row], label_width));
    for (size_t column = 0; column < columns; ++column) {
      const size_t cell = row * columns + column;
      const Seam left = seam_before(grid.columns, column, picture.block_columns);
      const bool starts = column == 0 || left.border;
      if (left.gap && !left.border) out.write(" ..");
      if (starts) {
        // Below each other blocks of one column would have a scale for every value.
        const bool shown = row == 0 || above.border;
        out.write(" | ");
        out.write(Style::kCyan, fmt::format("{:>{}}", shown ? scales[cell] : "", scale_width));
      }
      out.print(" {:>{}}", values[cell], width);
    }
    out.write("\n");
  }
}

void draw_codes(const QuantPicture& picture, bool log_scale, Output& out) {
  uint64_t count = 0;
  for (const uint64_t codes : picture.codes) count += codes;
  heading(out, "codes",
          fmt::format("{}{}", count_text(count, "value", "values"), log_scale ? ", bars on a log scale" : ""));
  const auto bins = code_bins(picture.format.element, picture.codes);
  const auto length = [&](uint64_t number) {
    return log_scale ? std::log1p(static_cast<double>(number)) : static_cast<double>(number);
  };
  size_t codes = 0, values = 0, counts = 0;
  double largest = 0;
  std::vector<std::string> labels;
  for (const CodeBin& bin : bins) {
    labels.push_back(bin.low == bin.high || std::isnan(bin.low)
                         ? real(bin.low)
                         : fmt::format("{} .. {}", real(bin.low), real(bin.high)));
    if (bin.low == 0 && bin.high == 0 && std::signbit(bin.low)) labels.back() = "-0";
    if (std::isnan(bin.low)) labels.back() = "NaN";
    codes = std::max(codes, bin.codes.size());
    values = std::max(values, labels.back().size());
    counts = std::max(counts, fmt::format("{}", bin.count).size());
    largest = std::max(largest, length(bin.count));
  }
  for (size_t i = 0; i < bins.size(); ++i) {
    out.write(Style::kDim, fmt::format("  {:<{}}", bins[i].codes, codes));
    out.print("  {:>{}}  {:>{}} ", labels[i], values, bins[i].count, counts);
    out.write(Style::kCyan, bar(largest == 0 ? 0 : length(bins[i].count) / largest, 40, out.terminal().unicode));
    out.write("\n");
  }
}

// The largest of the cells that one character stands for; NaN wins.
float largest_of(const ScaleMap& map, uint64_t row, uint64_t column, uint64_t down, uint64_t right) {
  float largest = -std::numeric_limits<float>::infinity();
  for (uint64_t i = row * down; i < std::min((row + 1) * down, map.cells_down); ++i)
    for (uint64_t k = column * right; k < std::min((column + 1) * right, map.cells_right); ++k) {
      const float cell = map.cells[i * map.cells_right + k];
      if (std::isnan(cell)) return cell;
      largest = std::max(largest, cell);
    }
  return largest;
}

void draw_scales(const QuantPicture& picture, Output& out) {
  const ScaleMap& map = picture.scales;
  std::string detail =
      fmt::format("{} × {}, {} .. {}", map.rows, map.columns, real(picture.scale_min), real(picture.scale_max));
  if (picture.scales_nan > 0) detail += fmt::format(", {} NaN", picture.scales_nan);
  if (picture.zero_blocks > 0)
    detail += fmt::format(", {}", count_text(picture.zero_blocks, "block of zeros", "blocks of zeros"));
  heading(out, "scales", detail);
  if (map.cells.size() < 2) return;
  const uint64_t down = (map.cells_down + kMapRows - 1) / kMapRows;
  const uint64_t right = (map.cells_right + kMapColumns - 1) / kMapColumns;
  static constexpr std::array<std::string_view, 5> kBlocks = {"·", "░", "▒", "▓", "█"};
  static constexpr std::array<std::string_view, 5> kLetters = {".", ":", "+", "*", "#"};
  const auto& shades = out.terminal().unicode ? kBlocks : kLetters;
  // By powers of two: that is how scales differ.
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const float cell : map.cells)
    if (std::isfinite(cell) && cell > 0) {
      low = std::min(low, std::log2(static_cast<double>(cell)));
      high = std::max(high, std::log2(static_cast<double>(cell)));
    }
  for (uint64_t row = 0; row < (map.cells_down + down - 1) / down; ++row) {
    out.write("  ");
    for (uint64_t column = 0; column < (map.cells_right + right - 1) / right; ++column) {
      const float scale = largest_of(map, row, column, down, right);
      if (!std::isfinite(scale)) {
        out.write(Style::kRed, "!");
      } else if (scale <= 0) {
        out.write(Style::kDim, "0");
      } else {
        const double share = high > low ? (std::log2(static_cast<double>(scale)) - low) / (high - low) : 0.5;
        out.write(Style::kCyan, shades[std::min<size_t>(static_cast<size_t>(share * 5), 4)]);
      }
    }
    out.write("\n");
  }
  if (high >= low)
    out.print("  {} {} .. {} {}, by powers of two{}\n", shades.front(), real(std::exp2(low)), shades.back(),
              real(std::exp2(high)),
              map.row_step * down * map.column_step * right > 1
                  ? fmt::format("; a character is the largest of {} × {} blocks", map.row_step * down,
                                map.column_step * right)
                  : "");
}

}  // namespace

void draw_quant_picture(const QuantPicture& picture, bool log_scale, Output& out) {
  if (picture.stats) draw_against(picture, out);
  draw_grid(picture, out);
  if (!picture.codes.empty()) draw_codes(picture, log_scale, out);
  if (!picture.scales.cells.empty()) draw_scales(picture, out);
}

}  // namespace ttap
