#include "cli/doctor/python_facts.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdio>
#include <memory>

#include "report/text/json_reader.h"

namespace ttap::cli {
namespace {

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string text_at(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

Result<PythonFacts> ask_python(const std::string& python, const std::filesystem::path& launch_folder) {
  const std::string command =
      fmt::format("{} {} 2>/dev/null", quoted(python), quoted((launch_folder / "tensortap_about.py").string()));
  std::string answer;
  int status = 0;
  {
    FILE* const pipe = ::popen(command.c_str(), "re");
    if (pipe == nullptr) return Error{ErrorCode::kIo, "no process can be started"};
    char part[4096];
    while (const size_t count = std::fread(part, 1, sizeof part, pipe)) answer.append(part, count);
    status = ::pclose(pipe);
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return Error{.code = ErrorCode::kNotFound,
                 .message = fmt::format("'{}' does not run, or is older than Python 3.10", python),
                 .hint = "name another one: ttap doctor --python /path/to/python"};
  const auto json = read_json(answer);
  if (!json.ok() || !json->is_object()) return Error{ErrorCode::kCorrupt, fmt::format("'{}' answered no JSON", python)};
  const auto sees = json->find("sees_operators");
  return PythonFacts{.executable = text_at(*json, "executable"),
                     .version = text_at(*json, "version"),
                     .package = text_at(*json, "package"),
                     .package_error = text_at(*json, "package_error"),
                     .torch = text_at(*json, "torch"),
                     .torch_error = text_at(*json, "torch_error"),
                     .torch_gpu = text_at(*json, "torch_gpu"),
                     .sees_operators = sees != json->end() && sees->is_boolean() && sees->get<bool>(),
                     .operators = text_at(*json, "operators")};
}

}  // namespace ttap::cli
