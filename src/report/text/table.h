#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/text/output.h"

namespace ttap {

// Rows of cells in columns as wide as they need. A column without any text is not drawn. Where the terminal is
// narrower, columns are left out (the largest `drop` first), then the one that shrinks is shortened. In a pipe the
// table is as wide as it wants to be.
class Table {
 public:
  enum class Align : uint8_t { kLeft, kRight };
  struct Column {
    std::string_view title;
    Align align = Align::kLeft;
    int drop = 0;  // 0 stays
    bool shrinks = false;
  };

  explicit Table(std::vector<Column> columns);

  // The next cell, row after row; `text` holds no control characters.
  void add(std::string_view text, Style style = Style::kPlain);
  size_t rows() const { return cells_.size() / columns_.size(); }

  void draw(Output& out, size_t indent = 0) const;

 private:
  struct Cell {
    size_t offset;  // in text_
    uint32_t bytes;
    uint32_t width;
    Style style;
  };
  std::vector<size_t> fit(const Output& out, size_t indent) const;
  void draw_cell(Output& out, const Column& column, std::string_view text, size_t width, Style style, bool last) const;

  std::vector<Column> columns_;
  std::string text_;  // of all cells: one allocation that grows instead of one per cell
  std::vector<Cell> cells_;
  std::vector<size_t> widths_;
  std::vector<bool> used_;
};

// One line of what is known of something: a name, in so many columns, and what it is.
void write_fact(Output& out, size_t columns, std::string_view name, std::string_view text, Style style = Style::kPlain);

}  // namespace ttap
