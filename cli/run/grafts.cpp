#include "cli/run/grafts.h"

#include <fmt/format.h>

#include <system_error>

#include "core/json.h"
#include "ttap/run.h"

namespace ttap::cli {
namespace fs = std::filesystem;
namespace {

struct Graft {
  std::string run;  // as it was given
  std::string key;
};

// Up to the first colon in front of which a run lies, or else anything: both may have more of them.
Result<Graft> parse(const std::string& text) {
  std::optional<Graft> found;
  std::error_code error;
  for (size_t colon = text.find(':'); colon != std::string::npos; colon = text.find(':', colon + 1)) {
    const std::string run = text.substr(0, colon);
    if (run.empty() || colon + 1 == text.size() || !fs::exists(run, error)) continue;
    if (Run::open(run).ok()) return Graft{run, text.substr(colon + 1)};
    if (!found) found = Graft{run, text.substr(colon + 1)};
  }
  if (found) return *found;
  return Error{.code = ErrorCode::kNotFound,
               .message = fmt::format("--graft: there is no run in '{}'", text),
               .hint = "write RUN:KEY: a directory or file that is there, and a tensor of it: good:encoder.layer.0"};
}

Result<std::string> path_of(const std::string& run, const std::optional<std::string>& directory) {
  const auto opened = Run::open(run);
  if (!opened.ok()) return opened.error();
  if (!opened->ranks.empty() && !opened->ranks[0].passes.empty()) TTAP_TRY(Pass::open(opened->ranks[0].passes[0].path));
  std::error_code error;
  if (directory && fs::equivalent(run, *directory, error))
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("--graft: '{}' is where this run is to go", run),
                 .hint = "record into another directory: ttap run -o DIR"};
  return fs::absolute(opened->path).lexically_normal().string();
}

}  // namespace

Result<std::optional<std::string>> grafts_json(const GraftOptions& options,
                                               const std::optional<std::string>& directory) {
  if (options.from.empty()) {
    if (!options.names_of) return std::optional<std::string>();
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "--graft-names-of without --graft",
                 .hint = "say what is put in: --graft RUN:KEY"};
  }
  Json grafts = {{"keys", Json::object()}};
  for (const std::string& text : options.from) {
    TTAP_ASSIGN(const Graft graft, parse(text));
    TTAP_ASSIGN(const std::string path, path_of(graft.run, directory));
    grafts["keys"][path].push_back(graft.key);
  }
  if (options.names_of) {
    TTAP_ASSIGN(const std::string path, path_of(*options.names_of, directory));
    grafts["names_of"] = path;
  }
  return std::optional(json_text(grafts));
}

}  // namespace ttap::cli
