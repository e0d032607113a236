#include "report/json_writer.h"

#include <cmath>

#include "report/utf8.h"

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
  for (size_t i = 0; i < text.size();) {
    const Utf8Character c = decode_utf8(text.substr(i));
    const std::string_view bytes = text.substr(i, c.bytes);
    if (!c.valid) {
      out_.write("\xEF\xBF\xBD");
    } else if (c.code == '"' || c.code == '\\') {
      out_.print("\\{}", bytes);
    } else if (c.code < 0x20 || c.code == 0x7F) {
      out_.print("\\u{:04x}", c.code);
    } else {
      out_.write(bytes);
    }
    i += c.bytes;
  }
  out_.write("\"");
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  if (std::isnan(number)) return value("nan");
  if (std::isinf(number)) return value(number < 0 ? "-inf" : "inf");
  before_value();
  const auto text = fmt::format("{}", number);
  out_.write(text);
  // A float stays a float for readers that tell them apart.
  if (text.find_first_of(".e") == std::string::npos) out_.write(".0");
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
