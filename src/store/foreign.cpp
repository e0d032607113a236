#include "store/foreign.h"

namespace ttap {

Key key_of_foreign_name(std::string_view text) {
  auto key = parse_key(text);
  if (key.ok() && to_string(*key) == text) return std::move(key).value();
  return Key{.name = std::string(text)};
}

}  // namespace ttap
