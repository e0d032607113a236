#include "core/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>

namespace ttap {

void Pattern::Free::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

Result<Pattern> Pattern::compile(const std::string& text) {
  int code = 0;
  PCRE2_SIZE at = 0;
  auto* compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, &code, &at, nullptr);
  if (compiled == nullptr) {
    std::array<PCRE2_UCHAR, 256> reason{};
    pcre2_get_error_message(code, reason.data(), reason.size());
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("bad pattern '{}': {} at character {}", text,
                                        reinterpret_cast<const char*>(reason.data()), at)};
  }
  return Pattern(text, compiled);
}

bool Pattern::found_in(std::string_view subject) const {
  struct FreeMatch {
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create(1, nullptr));
  const auto* begin = reinterpret_cast<PCRE2_SPTR>(subject.data());
  return pcre2_match(code_.get(), begin, subject.size(), 0, 0, match.get(), nullptr) >= 0;
}

Result<std::string> Pattern::replaced(std::string_view subject, std::string_view replacement) const {
  // A group on an alternative not taken caught nothing, and is no error.
  constexpr uint32_t kSubstitute =
      PCRE2_SUBSTITUTE_GLOBAL | PCRE2_SUBSTITUTE_OVERFLOW_LENGTH | PCRE2_SUBSTITUTE_UNSET_EMPTY;
  std::string out(subject.size() + replacement.size() + 64, '\0');
  while (true) {
    PCRE2_SIZE size = out.size();
    const int code = pcre2_substitute(code_.get(), reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(), 0,
                                      kSubstitute, nullptr, nullptr, reinterpret_cast<PCRE2_SPTR>(replacement.data()),
                                      replacement.size(), reinterpret_cast<PCRE2_UCHAR*>(out.data()), &size);
    if (code == PCRE2_ERROR_NOMEMORY && size > out.size()) {
      out.resize(size);
      continue;
    }
    if (code >= 0) {
      out.resize(size);
      return out;
    }
    std::array<PCRE2_UCHAR, 256> reason{};
    pcre2_get_error_message(code, reason.data(), reason.size());
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("bad replacement '{}' for the pattern '{}': {}", replacement, text_,
                                        reinterpret_cast<const char*>(reason.data()))};
  }
}

}  // namespace ttap
