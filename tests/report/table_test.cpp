#include "report/text/table.h"

#include <gtest/gtest.h>

#include "report/written_text.h"

namespace ttap {
namespace {

using enum Table::Align;

std::string drawn(const Table& table, Terminal terminal = {}) {
  return written([&](Output& out) { table.draw(out); }, terminal);
}

TEST(Table, AlignsColumnsAndLeavesOutEmptyOnes) {
  Table table({{"name"}, {"size", kRight}, {"note"}});
  for (const char* cell : {"a", "10", "", "long name", "5", ""}) table.add(cell);
  EXPECT_EQ(drawn(table),
            "name       size\n"
            "a            10\n"
            "long name     5\n");
}

TEST(Table, NoLineEndsInSpaces) {
  Table table({{"a"}, {"b", kRight}, {"c"}});
  for (const char* cell : {"1", "", "", "1", "2", "3"}) table.add(cell);
  EXPECT_EQ(drawn(table), "a  b  c\n1\n1  2  3\n");
}

TEST(Table, DropsAndShrinksToTheTerminal) {
  Table table({{"key", kLeft, 0, true}, {"dropped", kLeft, 1}, {"kept"}});
  for (const char* cell : {"model.layers.0.attention.o_proj", "xxxxxxxxxx", "k"}) table.add(cell);
  const std::string text = drawn(table, {.is_terminal = true, .width = 30});
  EXPECT_EQ(text.find("dropped"), std::string::npos);
  EXPECT_NE(text.find("o_proj"), std::string::npos);
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    EXPECT_LE(end - at, 30u);
    at = end + 1;
  }
  EXPECT_NE(drawn(table).find("model.layers.0.attention.o_proj  xxxxxxxxxx  k"), std::string::npos);  // a pipe gets all
}

TEST(Table, ColoursDoNotCountAsWidth) {
  Table table({{"a"}, {"b"}});
  table.add("x", Style::kRed);
  table.add("y");
  EXPECT_EQ(drawn(table, {.color = true}), "\x1b[1ma\x1b[0m  \x1b[1mb\x1b[0m\n\x1b[1;31mx\x1b[0m  y\n");
}

}  // namespace
}  // namespace ttap
