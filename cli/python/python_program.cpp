#include "cli/python/python_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "cli/run/environment.h"

namespace ttap::cli {
namespace fs = std::filesystem;

std::string usual_python() {
  std::error_code error;
  const fs::path beside = fs::read_symlink("/proc/self/exe", error).parent_path() / "python";
  if (!error && fs::exists(beside, error)) return beside.string();
  for (const char* name : {"python", "python3"})
    if (std::system(fmt::format("command -v {} >/dev/null 2>&1", name).c_str()) == 0) return name;
  return "python3";
}

std::string own_path() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  return error ? "ttap" : path.string();
}

std::array<Option, 2> add_python(Verb& verb, PythonOptions& python) {
  const Option path =
      verb.add_option("--python", python.path,
                      "The interpreter with PyTorch; by default the one beside the command, else that of the PATH")
          .type_name("PATH");
  const Option imports = verb.add_option("--import", python.imports,
                                         "Import this first, a module or a file: a library of operators; repeatable")
                             .type_name("MODULE")
                             .one_value_each();
  return {path, imports};
}

Option add_device(Verb& verb, std::string& device) {
  return verb.add_option("--device", device, "Where to call operators again: cpu, cuda").show_default();
}

void append_options(const SelectionOptions& given, std::vector<std::string>& words) {
  if (!given.passes.empty()) words.insert(words.end(), {"--pass", given.passes});
  if (!given.ranks.empty()) words.insert(words.end(), {"--rank", given.ranks});
  if (given.json) words.emplace_back("--json");
  if (given.color != ColorChoice::kAuto)
    words.insert(words.end(), {"--color", given.color == ColorChoice::kAlways ? "always" : "never"});
}

void append_program(char* const* program, std::vector<std::string>& words) {
  words.emplace_back("--");
  for (char* const* word = program; *word != nullptr; ++word) words.emplace_back(*word);
}

Result<ExitCode> become_python(const PythonOptions& python, const std::vector<std::string>& words) {
  TTAP_ASSIGN(const fs::path launch, launch_folder());
  std::vector<std::string> all = {python.path.empty() ? usual_python() : python.path,
                                  (launch / "tensortap_command.py").string(), words.front()};
  for (const std::string& name : python.imports) all.push_back("--import=" + name);
  all.insert(all.end(), words.begin() + 1, words.end());
  std::vector<char*> given;
  given.reserve(all.size() + 1);
  for (std::string& word : all) given.push_back(word.data());
  given.push_back(nullptr);
  (void)::unsetenv("TTAP_RUN");  // in a program that is recorded: this is not a part of it
  std::signal(SIGPIPE, SIG_DFL);
  (void)::execvp(given[0], given.data());
  return Error{.code = ErrorCode::kNotFound,
               .message = fmt::format("cannot run '{}': {}", all[0], std::strerror(errno)),
               .hint = "name an interpreter with PyTorch: --python /path/to/python"};
}

}  // namespace ttap::cli
