#include "cli/run/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "core/byte_size.h"
#include "core/number_set.h"
#include "core/pattern.h"
#include "core/utf8.h"
#include "report/text/json_reader.h"
#include "ttap/record.h"

namespace ttap::cli {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kLeastStaging = 64 * 1024;

Error bad_value(std::string_view option, std::string_view value, std::string hint) {
  return {.code = ErrorCode::kInvalidArgument,
          .message = fmt::format("{}: '{}' will not do", option, value),
          .hint = std::move(hint)};
}

Status check_pattern(std::string_view option, const std::string& pattern) {
  if (!is_utf8(pattern)) return bad_value(option, pattern, "write the pattern in UTF-8");
  if (const auto compiled = Pattern::compile(pattern); !compiled.ok())
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("{}: {}", option, compiled.error().message),
                 .hint = "write a literal '.', '(' or '[' with a backslash before it"};
  return {};
}

Result<std::string> filter_json(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) TTAP_TRY(check_pattern("--filter", pattern));
  return json_text(Json(patterns));
}

// `package.module:function` or `path/file.py:function`; a path is made absolute, for programs that go elsewhere.
Result<std::string> filter_function(const std::string& spec) {
  const size_t colon = spec.rfind(':');
  const std::string place = spec.substr(0, std::min(colon, spec.size()));
  const std::string function = colon == std::string::npos ? "" : spec.substr(colon + 1);
  if (place.empty() || function.empty() || spec.find_first_of(" \t\n") < spec.size())
    return bad_value("--filter-fn", spec, "write package.module:function or /path/to/file.py:function");
  if (!place.ends_with(".py") && place.find('/') == std::string::npos) return spec;
  std::error_code error;
  if (!fs::is_regular_file(place, error))
    return Error{.code = ErrorCode::kNotFound,
                 .message = "--filter-fn: no such file",
                 .path = place,
                 .hint = "check the path before the colon"};
  return fmt::format("{}:{}", fs::absolute(place).lexically_normal().string(), function);
}

// One word for everything, or a rule for each pattern, the first that matches; a word besides rules is for the rest.
Result<std::string> level_value(const std::vector<std::string>& levels) {
  constexpr const char* kHint = "give one of meta, fingerprint, sketch, full; or PATTERN=LEVEL, each pattern once";
  std::optional<std::string> rest;
  Json rules = Json::object();
  for (const std::string& text : levels) {
    if (level_from_name(text)) {
      if (rest) return bad_value("--level", text, fmt::format("'{}' was given before it; {}", *rest, kHint));
      rest = text;
      continue;
    }
    const size_t equals = text.rfind('=');
    if (equals == std::string::npos || equals == 0 || !level_from_name(text.substr(equals + 1)))
      return bad_value("--level", text, kHint);
    const std::string pattern = text.substr(0, equals);
    TTAP_TRY(check_pattern("--level", pattern));
    if (rules.contains(pattern)) return bad_value("--level", text, kHint);
    rules[pattern] = text.substr(equals + 1);
  }
  if (rules.empty()) return *rest;
  if (rest && !rules.contains(".*")) rules[".*"] = *rest;
  return json_text(rules);
}

Status check_numbers(std::string_view option, const std::string& text) {
  if (!NumberSet::parse(text, NumberSet::LastRange::kMayBeOpen).ok())
    return bad_value(option, text, "write 3, or 0,3-5, or 0,10- for 0 and everything from 10 on");
  return {};
}

Status check_roles(const std::string& text) {
  constexpr std::array<std::string_view, 6> kRoles = {"out", "in", "grad_out", "grad_in", "param", "cache"};
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    if (std::ranges::find(kRoles, std::string_view(text).substr(at, comma - at)) == kRoles.end())
      return bad_value("--roles", text, "give some of out,in,grad_out,grad_in,param,cache, with commas between");
    at = comma + 1;
  }
  return {};
}

Status check_size(std::string_view option, std::string_view text, uint64_t least) {
  const auto size = parse_byte_size(text);
  if (!size) return bad_value(option, text, "give a number of bytes, or one with K, M, G or T: 256M");
  if (*size < least) return bad_value(option, text, fmt::format("give {}K at least", least / 1024));
  return {};
}

bool holds_launcher(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "sitecustomize.py", error);
}

}  // namespace

Result<std::vector<Variable>> variables_for(const RecordingOptions& options) {
  std::vector<Variable> variables;
  const auto set = [&](const char* name, const std::optional<std::string>& value) {
    if (value) variables.push_back({name, value});
  };
  if (!options.filter.empty() && options.filter_function)
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "--filter and --filter-fn do not go together",
                 .hint = "give one of them; the function can look at the name itself"};
  // Each of the two outweighs the other one where that comes from the environment.
  if (!options.filter.empty()) {
    TTAP_ASSIGN(const std::string value, filter_json(options.filter));
    set("TTAP_FILTER", value);
    variables.push_back({"TTAP_FILTER_FN", std::nullopt});
  }
  if (options.filter_function) {
    TTAP_ASSIGN(const std::string value, filter_function(*options.filter_function));
    set("TTAP_FILTER_FN", value);
    variables.push_back({"TTAP_FILTER", std::nullopt});
  }
  if (!options.level.empty()) {
    TTAP_ASSIGN(const std::string value, level_value(options.level));
    set("TTAP_LEVEL", value);
  }
  if (options.steps) TTAP_TRY(check_numbers("--steps", *options.steps));
  if (options.ranks) TTAP_TRY(check_numbers("--ranks", *options.ranks));
  if (options.roles) TTAP_TRY(check_roles(*options.roles));
  if (options.staging) TTAP_TRY(check_size("--staging", *options.staging, kLeastStaging));
  if (options.quota) TTAP_TRY(check_size("--quota", *options.quota, 0));
  set("TTAP_STEPS", options.steps);
  set("TTAP_RANKS", options.ranks);
  set("TTAP_ROLES", options.roles);
  set("TTAP_MODULES", options.modules);
  set("TTAP_FORMAT", options.format);
  set("TTAP_STAGING_BYTES", options.staging);
  set("TTAP_QUOTA_BYTES", options.quota);
  set("TTAP_WHEN_FULL", options.when_full);
  if (options.compiled) set("TTAP_COMPILED", "1");
  if (options.ops) set("TTAP_OPS", "1");
  if (options.stacks) set("TTAP_STACKS", "1");
  if (options.unseen_writes) set("TTAP_UNSEEN_WRITES", "1");
  if (options.strict) set("TTAP_STRICT", "1");
  if (options.quiet) set("TTAP_QUIET", "1");
  return variables;
}

// Where pip has put the package whose command we are: PREFIX/lib/python3.12/site-packages/tensortap beside
// PREFIX/bin/ttap.
void add_installed_packages(const fs::path& prefix, std::vector<fs::path>& places) {
  std::error_code error;
  for (const char* library : {"lib", "lib64", "local/lib"})
    for (const auto& entry : fs::directory_iterator(prefix / library, error)) {
      if (!entry.path().filename().string().starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"}) {
        const fs::path folder = entry.path() / packages / "tensortap/launch";
        if (holds_launcher(folder)) places.push_back(folder);
      }
    }
}

Result<fs::path> launch_folder() {
  std::vector<fs::path> places;
  std::error_code error;
  if (const char* given = std::getenv("TTAP_LAUNCH_DIR"); given != nullptr && *given != '\0') {
    places.push_back(fs::absolute(given));
  } else {
    const fs::path own = fs::read_symlink("/proc/self/exe", error);
    if (!error) {
      const fs::path prefix = own.parent_path().parent_path();
      places.push_back(prefix / "share/ttap/launch");
      add_installed_packages(prefix, places);
    }
    if (const std::string_view source = TTAP_SOURCE_LAUNCH_DIR; !source.empty()) places.emplace_back(source);
  }
  std::string looked;
  for (const fs::path& place : places) {
    // PYTHONPATH could not hold it.
    if (holds_launcher(place) && place.string().find(':') == std::string::npos) return place.lexically_normal();
    looked += fmt::format("{}{}", looked.empty() ? "" : " and ", place.string());
  }
  return Error{
      .code = ErrorCode::kNotFound,
      .message = fmt::format("cannot find the folder with TensorTap's sitecustomize.py; looked at {}", looked),
      .hint =
          "install TensorTap again (pip install tensortap), or set TTAP_LAUNCH_DIR to the folder tensortap/launch "
          "of its Python package (a path without a colon)"};
}

std::vector<std::string> environment_with(const fs::path& directory, bool is_run, const fs::path& launch,
                                          const std::vector<Variable>& variables) {
  std::string python_path = launch.string();
  if (const char* given = std::getenv("PYTHONPATH"); given != nullptr && *given != '\0') {
    const std::string_view path = given;
    const bool is_in_front = path == python_path || path.starts_with(python_path + ":");  // a run within a run
    python_path = is_in_front ? std::string(path) : fmt::format("{}:{}", python_path, path);
  }
  std::vector<Variable> all = {{"TTAP_DIR", directory.string()},
                               {"TTAP_RUN_NUMBER", is_run ? std::optional<std::string>("1") : std::nullopt},
                               {"TTAP_APPEND", std::nullopt},
                               {"TTAP_OVERRIDE", "1"},
                               {"TTAP_RUN", "1"},
                               {"TTAP_REPORT", "0"},
                               {"PYTHONPATH", python_path}};
  all.insert(all.end(), variables.begin(), variables.end());

  std::vector<std::string> environment;
  for (char** given = environ; *given != nullptr; ++given) {
    const std::string_view name = std::string_view(*given).substr(0, std::string_view(*given).find('='));
    if (std::ranges::find(all, name, &Variable::name) == all.end()) environment.emplace_back(*given);
  }
  for (const Variable& variable : all)
    if (variable.value) environment.push_back(fmt::format("{}={}", variable.name, *variable.value));
  return environment;
}

}  // namespace ttap::cli
