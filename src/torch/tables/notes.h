#pragma once

#include <string>
#include <string_view>

#include "capture/ops/text_table.h"
#include "core/json_string.h"

namespace ttap::torch_source {

// A JSON object that is written member by member.
class JsonObject {
 public:
  void add(std::string_view name, std::string_view json) {
    text_ += text_.empty() ? '{' : ',';
    text_ += json_string(name);
    text_ += ':';
    text_ += json;
  }
  // With the members of another, which has some.
  void add_all(std::string_view object) {
    text_ += text_.empty() ? '{' : ',';
    text_ += object.substr(1, object.size() - 2);
  }
  bool empty() const { return text_.empty(); }
  std::string str() const { return text_.empty() ? std::string() : text_ + '}'; }
  void clear() { text_.clear(); }

 private:
  std::string text_;
};

}  // namespace ttap::torch_source
