#include "cli/key_filter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>

namespace ttap::cli {

void KeyFilter::Free::operator()(pcre2_code* code) const { pcre2_code_free(code); }
void KeyFilter::Free::operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }

Result<KeyFilter> KeyFilter::create(std::string_view pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  KeyFilter filter;
  filter.code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | PCRE2_MATCH_INVALID_UTF, &error, &offset, nullptr));
  if (!filter.code_) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("'{}' is not a regular expression: {} (at character {})", pattern,
                                        reinterpret_cast<const char*>(text.data()), offset),
                 .hint = "write a literal '.', '(' or '[' with a backslash before it"};
  }
  // Without a just-in-time compiler matching is slower, not different.
  (void)pcre2_jit_compile(filter.code_.get(), PCRE2_JIT_COMPLETE);
  filter.match_.reset(pcre2_match_data_create_from_pattern(filter.code_.get(), nullptr));
  TTAP_CHECK(filter.match_ != nullptr);
  return filter;
}

bool KeyFilter::matches(std::string_view key) const {
  return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(key.data()), key.size(), 0, 0, match_.get(), nullptr) >= 0;
}

}  // namespace ttap::cli
