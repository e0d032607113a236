#include "analyze/diff/sides/rule_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

namespace ttap {
namespace {

constexpr const char* kHint = "write one rule per line, both sides in single quotes:  'pattern': 'value'";

Error bad_line(const std::string& path, int line, std::string_view what) {
  return Error{.code = ErrorCode::kInvalidArgument,
               .message = line > 0 ? fmt::format("line {}: {}", line, what) : std::string(what),
               .path = path,
               .hint = kHint};
}

int line_of(const YAML::Node& node) { return node.Mark().line + 1; }

Result<std::vector<RuleField>> fields_of(const YAML::Node& map, const std::string& path, const std::string& rule) {
  std::vector<RuleField> fields;
  for (const auto& entry : map) {
    const int line = line_of(entry.first);
    if (!entry.first.IsScalar()) return bad_line(path, line, fmt::format("a field of '{}' has no name", rule));
    RuleField& field = fields.emplace_back(RuleField{.name = entry.first.Scalar()});
    field.is_list = entry.second.IsSequence();
    if (entry.second.IsScalar()) field.values.push_back(entry.second.Scalar());
    for (const YAML::Node& value : field.is_list ? entry.second : YAML::Node()) {
      if (!value.IsScalar()) return bad_line(path, line, fmt::format("'{}' lists what is no text", field.name));
      field.values.push_back(value.Scalar());
    }
    if (field.values.empty())
      return bad_line(path, line, fmt::format("'{}' is neither a text nor a list of texts", field.name));
  }
  return fields;
}

Status add_map(const YAML::Node& map, const std::string& path, RuleValues values, std::vector<RuleLine>& rules) {
  for (const auto& entry : map) {
    const int line = line_of(entry.first);
    if (!entry.first.IsScalar()) return bad_line(path, line, "a pattern must be a text");
    const std::string& pattern = entry.first.Scalar();
    if (entry.second.IsMap() && values == RuleValues::kTextsAndMaps) {
      TTAP_ASSIGN(auto fields, fields_of(entry.second, path, pattern));
      rules.push_back({pattern, {}, line, std::move(fields)});
      continue;
    }
    if (!entry.second.IsScalar())
      return bad_line(path, line,
                      fmt::format("the value of '{}' is {}, not a text", pattern,
                                  entry.second.IsNull() ? "missing" : "a list or a map"));
    rules.push_back({pattern, entry.second.Scalar(), line, {}});
  }
  return {};
}

Result<std::vector<RuleLine>> rules_of(const YAML::Node& root, const std::string& path, RuleValues values) {
  std::vector<RuleLine> rules;
  if (root.IsMap()) {
    TTAP_TRY(add_map(root, path, values, rules));
  } else if (root.IsSequence()) {
    for (const YAML::Node& map : root) {
      if (!map.IsMap()) return bad_line(path, line_of(map), "this entry of the list is not a rule");
      TTAP_TRY(add_map(map, path, values, rules));
    }
  } else if (!root.IsNull()) {
    return bad_line(path, line_of(root), "neither a map of rules nor a list of them");
  }
  if (rules.empty()) return bad_line(path, 0, "no rules in it");
  return rules;
}

// The line where a second document begins, behind a `---` that is not the first thing in the text; 0 when none does.
int second_document(std::string_view yaml) {
  bool content = false;
  for (int line = 1; !yaml.empty(); ++line) {
    const std::string_view text = yaml.substr(0, yaml.find('\n'));
    yaml.remove_prefix(std::min(yaml.size(), text.size() + 1));
    if (text.starts_with("---") && content) return line + 1;
    content |= !text.empty() && text[0] != '#' && text[0] != '%';
  }
  return 0;
}

}  // namespace

Result<std::vector<RuleLine>> parse_rules(std::string_view yaml, const std::string& path, RuleValues values) {
  // The library throws on anything it does not like; nothing of that leaves this function.
  try {
    // Not LoadAll(): yaml-cpp 0.7 never comes back from a stray "," at the top.
    if (const int line = second_document(yaml); line > 0)
      return bad_line(path, line, "a second YAML document begins, and one is all that is read");
    return rules_of(YAML::Load(std::string(yaml)), path, values);
  } catch (const YAML::Exception& e) {
    return bad_line(path, e.mark.is_null() ? 0 : e.mark.line + 1, fmt::format("not YAML: {}", e.msg));
  } catch (const std::exception& e) {
    return bad_line(path, 0, fmt::format("not YAML: {}", e.what()));
  }
}

Result<std::vector<RuleLine>> read_rules(const std::string& path, RuleValues values) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (file.is_open() && !file.bad()) return parse_rules(text.str(), path, values);
  const int error = errno;
  return Error{.code = error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
               .message = fmt::format("cannot read the rules: {}", std::strerror(error)),
               .path = path};
}

}  // namespace ttap
