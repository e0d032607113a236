#include "store/foreign/foreign.h"

#include <fmt/format.h>

#include <unordered_set>

#include "core/utf8.h"

namespace ttap {

Key key_of_foreign_name(std::string_view text) {
  auto key = parse_key(text);
  if (key.ok() && to_string(*key) == text) return std::move(key).value();
  return Key{.name = std::string(text)};
}

Status check_writable(std::span<const NamedTensor> tensors) {
  std::unordered_set<std::string_view> seen;
  for (const NamedTensor& tensor : tensors) {
    if (!is_utf8(tensor.key))
      return Error{.code = ErrorCode::kInvalidArgument,
                   .message = fmt::format("key '{}' is not UTF-8", brief_text(tensor.key)),
                   .hint = "other programs only read names in UTF-8; write a .ttap segment, or rename it"};
    if (!seen.insert(tensor.key).second)
      return Error{ErrorCode::kInvalidArgument, fmt::format("two tensors have the key '{}'", brief_text(tensor.key))};
    if (auto status = validate(tensor.view); !status.ok()) {
      Error error = std::move(status).error();
      error.message = fmt::format("tensor '{}': {}", brief_text(tensor.key), error.message);
      return error;
    }
  }
  return {};
}

}  // namespace ttap
