#pragma once

#include <climits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

// JSON text to values and back, compiled once: nlohmann's parser and serializer cost seconds in every file that calls
// them by themselves.
namespace ttap {

using Json = nlohmann::ordered_json;  // keeps the order of members; a lookup takes time in proportion to their number
using SortedJson = nlohmann::json;    // for objects of any size

// Discarded (is_discarded()) where the text is not JSON, or is nested deeper than `deepest` levels.
Json parse_json(std::string_view text, int deepest = INT_MAX);
SortedJson parse_sorted_json(std::string_view text);
bool is_json(std::string_view text);

// On one line, unless indented; bytes that are not UTF-8 become U+FFFD.
std::string json_text(const Json& json, int indent = -1);

}  // namespace ttap
