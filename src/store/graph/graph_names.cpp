#include "store/graph/graph_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "ttap/key.h"

namespace ttap {
namespace {

constexpr size_t kLongest = 200;
constexpr size_t kShortestTimestamp = 14;  // 20251017071211…

constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kRoles = {
    {{"in", "INPUT"}, {"out", "OUTPUT"}, {"after", "AFTER"}}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_plain(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_'; }

std::string escaped(std::string_view text, std::string_view also_plain = {}) {
  std::string out;
  for (const char c : text) {
    if (is_plain(c) || also_plain.find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (text[i] == '%' && digits.size() == 2 && error == std::errc{} && end == digits.data() + 2) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// A part of a target that reads like a role would end the target.
std::string escaped_target(std::string_view target) {
  std::string out = escaped(target, ".-");
  for (const auto& [role, word] : kRoles)
    for (const std::string part = fmt::format(".{}", word); out.find(part) != std::string::npos;)
      out.replace(out.find(part), 1, "%2E");
  return out;
}

std::string word_of(std::string_view role) {
  for (const auto& [name, word] : kRoles)
    if (name == role) return std::string(word);
  return escaped(role);
}

}  // namespace

std::string file_stem_of(const NodeTensor& tensor) {
  std::string stem = escaped(tensor.node) + "-" + escaped_target(tensor.target) + "." + word_of(tensor.role);
  std::string_view rest = tensor.path.empty() ? std::string_view("/0") : std::string_view(tensor.path);
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const size_t slash = std::min(rest.find('/'), rest.size());
    stem += "." + escaped(rest.substr(0, slash));
    rest.remove_prefix(slash);
  }
  // file_name_of() marks what it cuts with a `~`, which stands in no other name.
  return stem.size() <= kLongest ? stem : file_name_of(stem);
}

std::optional<NamedNodeTensor> parse_file_stem(std::string_view stem) {
  const size_t dash = stem.find('-');
  if (dash == std::string_view::npos || dash == 0) return std::nullopt;
  NamedNodeTensor found;
  found.node = unescaped(stem.substr(0, dash));
  std::string_view rest = stem.substr(dash + 1);
  size_t mark = std::string_view::npos;
  size_t length = 0;
  for (const auto& [role, word] : kRoles) {
    const std::string part = fmt::format(".{}.", word);
    const size_t at = rest.find(part);
    if (at >= mark) continue;
    mark = at;
    length = part.size();
    found.role = role;
  }
  if (mark == std::string_view::npos) return std::nullopt;
  found.target = unescaped(rest.substr(0, mark));
  rest.remove_prefix(mark + length);
  const size_t last = rest.rfind('.');
  if (last != std::string_view::npos && rest.size() - last > kShortestTimestamp &&
      std::ranges::all_of(rest.substr(last + 1), is_digit)) {
    found.order = rest.substr(last + 1);
    rest = rest.substr(0, last);
  }
  while (true) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    if (dot == 0) return std::nullopt;
    found.path += "/" + unescaped(rest.substr(0, dot));
    if (dot == rest.size()) return found;
    rest.remove_prefix(dot + 1);
  }
}

std::string graph_folder_name(std::string_view graph) {
  const std::string name = file_name_of(graph);
  return name.starts_with(kGraphPrefix) ? name : std::string(kGraphPrefix) + name;
}

std::optional<uint64_t> parse_step_folder(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  uint64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (name.empty() || error != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  std::error_code ignored;
  const std::filesystem::path whole = std::filesystem::absolute(path, ignored).lexically_normal();
  if (!whole.parent_path().filename().string().starts_with(kGraphPrefix)) return std::nullopt;
  return step;
}

}  // namespace ttap
