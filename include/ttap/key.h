#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ttap/api.h"
#include "ttap/result.h"

namespace ttap {

// The address of one tensor within a pass: `name[::callN][@role][/path]`.
//   name  the operator, e.g. `model.layers.0.o_proj`, or the node of a graph, `%add_1`; not empty, any bytes but NUL
//   call  1 for the first call in the pass (not printed), 2 for the second (`::call2`), …
//   role  `out` (not printed), `in`, `grad_out`, …: letters, digits and `_`
//   path  the place inside a nested output: empty, or `/0`, `/1/attn`; made with append_path()
struct TTAP_API Key {
  std::string name = {};
  uint32_t call = 1;
  std::string role = "out";
  std::string path = {};

  bool operator==(const Key&) const = default;
};

// Prints and parses without loss: what the grammar uses (`@`, `/`, `%`, and the first colon of
// `::call`) is written as %XX inside a name, so two different keys never print alike. A `%` that begins a name and has
// a letter or `_` behind it stands for itself.
TTAP_API std::string to_string(const Key& key);
TTAP_API Result<Key> parse_key(std::string_view text);

// Whether the parts of a key are what the grammar allows; what is not cannot be printed without meeting another key.
TTAP_API bool is_valid_name(std::string_view name);
TTAP_API bool is_valid_role(std::string_view role);
TTAP_API bool is_valid_path(std::string_view path);

// One more step into a nested output; the step may hold any bytes.
TTAP_API std::string append_path(std::string_view path, std::string_view step);

// A file name (without extension) for a key: safe on every file system that distinguishes cases, at most
// 200 bytes, and never the same for two keys.
TTAP_API std::string file_name_of(std::string_view key);

}  // namespace ttap
