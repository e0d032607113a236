#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "analyze/values/number.h"
#include "report/text/output.h"

namespace ttap {

// Writes one JSON document as it goes, so a run of any length needs no memory. Members of a block stand on lines of
// their own, those of a line do not. Strings that are not UTF-8 get U+FFFD in place of the bytes that are not; NaN and
// infinities, which JSON lacks, are the strings "nan", "inf" and "-inf".
class JsonWriter {
 public:
  explicit JsonWriter(Output& out) : out_(out) {}

  JsonWriter& begin_object() { return begin('{', false); }  // a block
  JsonWriter& begin_line() { return begin('{', true); }     // an object on one line
  JsonWriter& begin_array() { return begin('[', false); }
  JsonWriter& begin_list() { return begin('[', true); }  // an array on one line
  JsonWriter& end();

  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(bool truth) { return raw(truth ? "true" : "false"); }
  JsonWriter& value(double number);
  JsonWriter& value(const Number& number);
  template <class Integer>
  requires(std::is_integral_v<Integer> && !std::is_same_v<Integer, bool>) JsonWriter& value(Integer number) {
    before_value();
    out_.print("{}", number);
    return *this;
  }
  JsonWriter& value(std::span<const int64_t> numbers);
  JsonWriter& null() { return raw("null"); }
  JsonWriter& raw(std::string_view json);  // text that is JSON already

  template <class T>
  JsonWriter& member(std::string_view name, const T& content) {
    return key(name).value(content);
  }

 private:
  struct Level {
    char close;
    bool line;
    bool empty = true;
  };
  JsonWriter& begin(char open, bool line);
  void before_value();
  void break_line();

  Output& out_;
  std::vector<Level> levels_;
  bool after_key_ = false;
};

}  // namespace ttap
