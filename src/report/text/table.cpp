#include "report/text/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/text/text.h"

namespace ttap {
namespace {

constexpr size_t kGap = 2;         // between columns
constexpr size_t kNarrowest = 12;  // of the column that shrinks

}  // namespace

Table::Table(std::vector<Column> columns)
    : columns_(std::move(columns)), widths_(columns_.size()), used_(columns_.size()) {
  for (size_t i = 0; i < columns_.size(); ++i) widths_[i] = display_width(columns_[i].title);
}

void Table::add(std::string_view text, Style style) {
  const size_t column = cells_.size() % columns_.size();
  const size_t width = display_width(text);
  cells_.push_back({text_.size(), static_cast<uint32_t>(text.size()), static_cast<uint32_t>(width), style});
  text_ += text;
  widths_[column] = std::max(widths_[column], width);
  if (!text.empty()) used_[column] = true;
}

// Widths to draw with; 0 for a column that is left out.
std::vector<size_t> Table::fit(const Output& out, size_t indent) const {
  std::vector<size_t> widths = widths_;
  for (size_t i = 0; i < widths.size(); ++i)
    if (!used_[i]) widths[i] = 0;
  const auto room = static_cast<size_t>(out.terminal().width);
  if (room == 0) return widths;
  const auto total = [&] {
    size_t sum = indent;
    bool any = false;
    for (size_t width : widths) {
      if (width == 0) continue;
      sum += width + (any ? kGap : 0);
      any = true;
    }
    return sum;
  };
  const auto shrinking = std::ranges::find_if(columns_, &Column::shrinks);
  const auto place = static_cast<size_t>(shrinking - columns_.begin());
  // Columns go while the shrinking one would be left with less than half of what it wants.
  const size_t least =
      shrinking == columns_.end() ? 0 : std::min(widths[place], std::max(kNarrowest, widths[place] / 2));
  const size_t spare = shrinking == columns_.end() ? 0 : widths[place] - least;
  while (total() - spare > room) {
    size_t victim = columns_.size();
    for (size_t i = 0; i < columns_.size(); ++i)
      if (widths[i] > 0 && columns_[i].drop > 0 &&
          (victim == columns_.size() || columns_[i].drop > columns_[victim].drop))
        victim = i;
    if (victim == columns_.size()) break;
    widths[victim] = 0;
  }
  if (const size_t needed = total(); needed > room && shrinking != columns_.end()) {
    const size_t excess = needed - room;
    widths[place] = widths[place] > excess + kNarrowest ? widths[place] - excess : std::min(widths[place], kNarrowest);
  }
  return widths;
}

void Table::draw_cell(Output& out, const Column& column, std::string_view text, size_t width, Style style,
                      bool last) const {
  const size_t own = std::min(display_width(text), width);
  const size_t padding = width - own;
  if (column.align == Align::kRight) out.print("{:{}}", "", padding);
  if (display_width(text) > width) {
    out.write(style, shorten(text, width, out.terminal().unicode));
  } else {
    out.write(style, text);
  }
  if (column.align == Align::kLeft && !last) out.print("{:{}}", "", padding);
}

void Table::draw(Output& out, size_t indent) const {
  const std::vector<size_t> widths = fit(out, indent);
  const auto draw_row = [&](auto text_and_style) {
    // Nothing is padded for empty cells at the end of a line.
    size_t last = 0;
    for (size_t i = 0; i < columns_.size(); ++i)
      if (widths[i] > 0 && !text_and_style(i).first.empty()) last = i;
    out.print("{:{}}", "", indent);
    bool any = false;
    for (size_t i = 0; i <= last; ++i) {
      if (widths[i] == 0) continue;
      if (any) out.print("{:{}}", "", kGap);
      any = true;
      const auto [text, style] = text_and_style(i);
      draw_cell(out, columns_[i], text, widths[i], style, i == last);
    }
    out.write("\n");
  };
  draw_row([&](size_t i) { return std::pair(columns_[i].title, Style::kBold); });
  for (size_t row = 0; row < rows() && !out.closed(); ++row)
    draw_row([&](size_t i) {
      const Cell& cell = cells_[row * columns_.size() + i];
      return std::pair(std::string_view(text_).substr(cell.offset, cell.bytes), cell.style);
    });
}

void write_fact(Output& out, size_t columns, std::string_view name, std::string_view text, Style style) {
  out.write(Style::kDim, fmt::format("  {:<{}} ", name, columns));
  out.write(style, text);
  out.write("\n");
}

}  // namespace ttap
