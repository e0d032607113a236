#pragma once

#include <string_view>

#include "ttap/result.h"

namespace ttap::cli {

// To stderr: what happened, where, what to do.
void print_error(std::string_view command, const Error& error);

}  // namespace ttap::cli
