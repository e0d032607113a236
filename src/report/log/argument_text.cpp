#include "report/log/argument_text.h"

#include <algorithm>

#include "core/utf8.h"

namespace ttap {
namespace {

constexpr size_t kMost = 200;  // bytes of a list or string
constexpr auto kNone = std::string_view::npos;

// Behind the quote that ends the string at the beginning of `text`.
size_t end_of_string(std::string_view text) {
  size_t at = 1;
  while (at < text.size() && text[at] != '\'') at += text[at] == '\\' ? 2 : 1;
  return std::min(at + 1, text.size());
}

// Behind the bracket that ends the list at the beginning of `text`; nothing where it holds lists or tensors.
size_t end_of_plain_list(std::string_view text) {
  for (size_t at = 1; at < text.size();) {
    if (text[at] == ']') return at + 1;
    if (text[at] == '[' || text[at] == '%') return kNone;
    at += text[at] == '\'' ? end_of_string(text.substr(at)) : 1;
  }
  return kNone;
}

// A string up to a character that begins within the bound; `%%` and `\'` stay whole.
size_t end_within(std::string_view text) {
  size_t at = 1;
  while (at <= kMost) at += text[at] == '\\' || text[at] == '%' ? 2 : decode_utf8(text.substr(at)).bytes;
  return at;
}

}  // namespace

std::string shortened_arguments(std::string_view text) {
  if (text.size() <= kMost) return std::string(text);
  std::string out;
  while (!text.empty()) {
    size_t end = 1;
    if (text.front() == '\'') {
      end = end_of_string(text);
      if (end > kMost + 2) {
        out.append(text.substr(0, end_within(text))) += "…'";
        text.remove_prefix(end);
        continue;
      }
    } else if (text.front() == '[') {
      end = end_of_plain_list(text);
      const size_t item = end == kNone || end <= kMost + 2 ? kNone : text.find(", ", kMost);
      if (item < end && end != kNone) {
        out.append(text.substr(0, item)) += ", …]";
        text.remove_prefix(end);
        continue;
      }
      if (end == kNone) end = 1;
    }
    out += text.substr(0, end);
    text.remove_prefix(end);
  }
  return out;
}

}  // namespace ttap
