#include "cli/arguments/program_words.h"

#include <string>

#include "cli/arguments/command_line.h"

namespace ttap::cli {

char* const* take_program(std::string_view name, const Verb& verb, Start& start) {
  if (start.argc < 2 || std::string_view(start.argv[1]) != name) return nullptr;
  int at = 2;
  for (; at < start.argc; ++at) {
    const std::string_view word = start.argv[at];
    if (word == "--" || word == "-" || !word.starts_with('-')) break;
    const bool more = at + 1 < start.argc && std::string_view(start.argv[at + 1]) != "--";
    const bool value_inside = word.find('=') != std::string_view::npos;
    if (more && !value_inside && verb.takes_value(std::string(word))) ++at;
  }
  const bool marked = at < start.argc && std::string_view(start.argv[at]) == "--";
  const int first = marked ? at + 1 : at;
  char* const* program = first < start.argc ? start.argv + first : nullptr;
  start.argc = at;
  return program;
}

}  // namespace ttap::cli
