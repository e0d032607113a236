#include "report/text/json_writer.h"

#include <cmath>

#include "core/utf8.h"

namespace ttap {

JsonWriter& JsonWriter::begin(char open, bool line) {
  before_value();
  out_.print("{}", open);
  const bool inside_line = !levels_.empty() && levels_.back().line;
  levels_.push_back({open == '{' ? '}' : ']', line || inside_line});
  return *this;
}

JsonWriter& JsonWriter::end() {
  TTAP_CHECK(!levels_.empty());
  const Level level = levels_.back();
  levels_.pop_back();
  if (!level.line && !level.empty) break_line();
  out_.print("{}", level.close);
  if (levels_.empty()) out_.write("\n");
  return *this;
}

void JsonWriter::break_line() { out_.print("\n{:{}}", "", levels_.size() * 2); }

void JsonWriter::before_value() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (levels_.empty()) return;
  Level& level = levels_.back();
  if (!level.empty) out_.write(level.line ? ", " : ",");
  if (!level.line) break_line();
  level.empty = false;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  value(name);
  out_.write(": ");
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  before_value();
  out_.write("\"");
  size_t written = 0;  // what needs no change is written in one go
  const auto write_up_to = [&](size_t end) { out_.write(text.substr(written, end - written)); };
  for (size_t i = 0; i < text.size();) {
    if (text[i] >= 0x20 && text[i] < 0x7F && text[i] != '"' && text[i] != '\\') {
      ++i;
      continue;
    }
    const Utf8Character c = decode_utf8(text.substr(i));
    const bool special = !c.valid || c.code == '"' || c.code == '\\' || c.code < 0x20 || c.code == 0x7F;
    if (special) {
      write_up_to(i);
      if (!c.valid) {
        out_.write("\xEF\xBF\xBD");
      } else if (c.code == '"' || c.code == '\\') {
        out_.print("\\{}", text.substr(i, c.bytes));
      } else {
        out_.print("\\u{:04x}", c.code);
      }
      written = i + c.bytes;
    }
    i += c.bytes;
  }
  write_up_to(text.size());
  out_.write("\"");
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  if (std::isnan(number)) return value("nan");
  if (std::isinf(number)) return value(number < 0 ? "-inf" : "inf");
  before_value();
  // A float stays a float for readers that tell them apart.
  char text[40];
  const auto end = fmt::format_to_n(text, sizeof text, "{}", number).out;
  const std::string_view shown(text, static_cast<size_t>(end - text));
  out_.write(shown);
  if (shown.find_first_of(".e") == std::string_view::npos) out_.write(".0");
  return *this;
}

JsonWriter& JsonWriter::value(const Number& number) {
  std::visit([this](auto content) { value(content); }, number);
  return *this;
}

JsonWriter& JsonWriter::value(std::span<const int64_t> numbers) {
  begin_list();
  for (int64_t number : numbers) value(number);
  return end();
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  before_value();
  out_.write(json);
  return *this;
}

}  // namespace ttap
