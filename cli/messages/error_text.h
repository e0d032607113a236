#pragma once

#include <string_view>

#include "ttap/result.h"

namespace ttap::cli {

// What to do about an error that brought no advice of its own.
std::string_view advice_for(ErrorCode code);

// To stderr: what happened, where, what to do.
void print_error(std::string_view command, const Error& error);

}  // namespace ttap::cli
