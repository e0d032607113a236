#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ttap/result.h"

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;

namespace ttap::cli {

// A regular expression (PCRE2) that is searched for in keys. Bytes that are not UTF-8 match nothing but themselves.
class KeyFilter {
 public:
  static Result<KeyFilter> create(std::string_view pattern);

  // Not for several threads at once.
  bool matches(std::string_view key) const;

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
    void operator()(pcre2_real_match_data_8* data) const;
  };
  KeyFilter() = default;

  std::unique_ptr<pcre2_real_code_8, Free> code_;
  std::unique_ptr<pcre2_real_match_data_8, Free> match_;
};

}  // namespace ttap::cli
