#include "ttap/key.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/mix64.h"

namespace ttap {
namespace {

constexpr std::string_view kCallMark = "::call";
constexpr size_t kMaxFileName = 200;

bool is_alnum(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

// A node of a graph is called `%add_1`: in front of a letter a first `%` is no escape, which begins with a digit for
// all that is escaped in names.
bool is_node_mark(std::string_view text, size_t i) {
  return i == 0 && text.size() > 1 && text[0] == '%' &&
         ((text[1] >= 'a' && text[1] <= 'z') || (text[1] >= 'A' && text[1] <= 'Z') || text[1] == '_');
}

void append_escaped(std::string& out, char c) { out += fmt::format("%{:02X}", static_cast<unsigned char>(c)); }

std::string escape_name(std::string_view name) {
  std::string out;
  out.reserve(name.size());
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool special =
        (c == '%' && !is_node_mark(name, i)) || c == '@' || c == '/' || name.substr(i).starts_with(kCallMark);
    if (special) {
      append_escaped(out, c);
    } else {
      out += c;
    }
  }
  return out;
}

Result<std::string> unescape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%' || is_node_mark(text, i)) {
      out += text[i];
      continue;
    }
    unsigned byte = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (digits.size() != 2 || error != std::errc{} || end != digits.data() + 2)
      return Error{.code = ErrorCode::kInvalidArgument,
                   .message = fmt::format("'%' without two hexadecimal digits in key '{}'", text),
                   .hint = "write a literal '%' as %25"};
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

}  // namespace

std::string to_string(const Key& key) {
  std::string text = escape_name(key.name);
  if (key.call != 1) text += fmt::format("{}{}", kCallMark, key.call);
  if (key.role != "out") text += fmt::format("@{}", key.role);
  return text + key.path;
}

bool is_valid_name(std::string_view name) { return !name.empty() && name.find('\0') == std::string_view::npos; }

bool is_valid_role(std::string_view role) {
  return !role.empty() && std::ranges::all_of(role, [](char c) { return is_alnum(c) || c == '_'; });
}

bool is_valid_path(std::string_view path) { return path.empty() || path.front() == '/'; }

Result<Key> parse_key(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("'{}' is not a key: {}", text, why),
                 .hint = "a key is name[::callN][@role][/path]"};
  };
  Key key;
  std::string_view head = text;
  if (const size_t slash = head.find('/'); slash != std::string_view::npos) {
    key.path = head.substr(slash);
    head = head.substr(0, slash);
  }
  if (const size_t at = head.find('@'); at != std::string_view::npos) {
    key.role = head.substr(at + 1);
    head = head.substr(0, at);
    if (!is_valid_role(key.role)) return bad("the role after '@' must be letters, digits and '_'");
  }
  if (const size_t mark = head.find(kCallMark); mark != std::string_view::npos) {
    const std::string_view number = head.substr(mark + kCallMark.size());
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), key.call);
    if (error != std::errc{} || end != number.data() + number.size() || key.call < 1)
      return bad("'::call' must be followed by a number from 1");
    head = head.substr(0, mark);
  }
  TTAP_ASSIGN(key.name, unescape(head));
  if (!is_valid_name(key.name)) return bad("the name is empty or holds a NUL byte");
  return key;
}

std::string append_path(std::string_view path, std::string_view step) {
  std::string out(path);
  out += '/';
  for (char c : step) {
    if (c == '/' || c == '%') {
      append_escaped(out, c);
    } else {
      out += c;
    }
  }
  return out;
}

std::string file_name_of(std::string_view key) {
  if (key.empty()) return "%";  // alone it is no escape, so nothing else is called that
  std::string out;
  for (size_t i = 0; i < key.size(); ++i) {
    const char c = key[i];
    const bool safe = is_alnum(c) || c == '_' || c == '-' || c == '@' || (c == '.' && i > 0);
    if (safe) {
      out += c;
    } else {
      append_escaped(out, c);
    }
  }
  if (out.size() <= kMaxFileName) return out;
  // '~' never occurs above, so a shortened name cannot meet a whole one; 128 bits keep the shortened apart.
  uint64_t low = 0, high = 1;
  for (char c : key) {
    low = mix64(low ^ static_cast<unsigned char>(c));
    high = mix64(high + static_cast<unsigned char>(c) * 0x9E3779B97F4A7C15u);
  }
  return fmt::format("{}~{:016x}{:016x}", out.substr(0, kMaxFileName - 33), low, high);
}

}  // namespace ttap
