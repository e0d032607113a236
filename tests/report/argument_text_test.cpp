#include "report/log/argument_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ttap {
namespace {

std::string numbers(int count) {
  std::string text = "[";
  for (int i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + std::to_string(1000 + i);
  return text + "]";
}

TEST(ArgumentText, ShortTextStaysAsItIs) {
  for (const char* text : {"", "%0, [1, 2], 'word', alpha=2", "[[1, 2], [%3, None]]"})
    EXPECT_EQ(shortened_arguments(text), text);
}

TEST(ArgumentText, ALongListOfNumbersEndsAtAnItem) {
  const std::string shortened = shortened_arguments("%0, " + numbers(500) + ", dim=1");
  EXPECT_TRUE(shortened.starts_with("%0, [1000, 1001, "));
  EXPECT_TRUE(shortened.ends_with(", …], dim=1"));
  EXPECT_LT(shortened.size(), 240U);
}

TEST(ArgumentText, ListsInListsAreShortenedEach) {
  const std::string shortened = shortened_arguments("[" + numbers(500) + ", " + numbers(2) + "]");
  EXPECT_TRUE(shortened.ends_with(", …], [1000, 1001]]"));
}

TEST(ArgumentText, AListOfTensorsStaysWhole) {
  std::string text = "[%0";
  for (int i = 1; i < 200; ++i) text += ", %" + std::to_string(i);
  text += "]";
  EXPECT_EQ(shortened_arguments(text), text);
}

TEST(ArgumentText, ALongStringEndsAtACharacter) {
  std::string text = "'";
  for (int i = 0; i < 300; ++i) text += "é%%\\'";
  const std::string shortened = shortened_arguments(text + "', 3");
  EXPECT_TRUE(shortened.ends_with("…', 3"));
  const std::string kept = shortened.substr(0, shortened.find("…"));
  EXPECT_TRUE(kept.ends_with("é") || kept.ends_with("%%") || kept.ends_with("\\'"));
  EXPECT_LT(shortened.size(), 220U);
}

TEST(ArgumentText, TornTextEnds) {
  for (const std::string& text : {"'" + std::string(400, 'x'), numbers(300).substr(0, 900), std::string(300, '['),
                                 "'" + std::string(250, 'x') + "\\"})
    EXPECT_LE(shortened_arguments(text).size(), text.size() + 8);
}

TEST(ArgumentText, PartsAreTextAndTensorsInOrder) {
  std::vector<std::string> parts;
  for_each_part(
      "%0, 5%%, %12, %7", [&](std::string_view part) { parts.emplace_back(part); },
      [&](uint32_t number) {
        if (number == 7) return false;  // has no such use
        parts.push_back("tensor " + std::to_string(number));
        return true;
      });
  EXPECT_EQ(parts, (std::vector<std::string>{"", "tensor 0", ", 5", "%", ", ", "tensor 12", ", ", "%", "7"}));
}

}  // namespace
}  // namespace ttap
