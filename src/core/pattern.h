#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "ttap/result.h"

struct pcre2_real_code_8;

namespace ttap {

// A compiled PCRE2 pattern; matching is thread-safe.
class Pattern {
 public:
  static Result<Pattern> compile(const std::string& text);
  bool found_in(std::string_view subject) const;
  // `subject` with every match replaced; `$1` or `${1}` in the replacement is what the group caught, `$$` a dollar.
  // Fails when the replacement names a group that is not there.
  Result<std::string> replaced(std::string_view subject, std::string_view replacement) const;
  const std::string& text() const { return text_; }

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  Pattern(std::string text, pcre2_real_code_8* code) : text_(std::move(text)), code_(code) {}
  std::string text_;
  std::unique_ptr<pcre2_real_code_8, Free> code_;
};

}  // namespace ttap
