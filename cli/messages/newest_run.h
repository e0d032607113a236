#pragma once

#include <string>
#include <string_view>

namespace ttap::cli {

// On stderr, where a directory holds several runs: that the command takes the newest, and where the others are.
void say_newest_run(std::string_view command, const std::string& path);

}  // namespace ttap::cli
