#pragma once

#include <string_view>

#include "cli/arguments/command.h"

namespace ttap::cli {

class Verb;

// Takes the program and its words off `start`, where `name` is the verb that was given: they are not ours to
// understand. It begins behind `--`, or with the first word that is no option. Null when there is none.
char* const* take_program(std::string_view name, const Verb& verb, Start& start);

}  // namespace ttap::cli
