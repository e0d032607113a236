#pragma once

#include <filesystem>
#include <set>

#include "report/text/output.h"

// What `ttap run` says when the program has ended.
namespace ttap::cli {

// The rank directories that are in `directory` now; none when it is not there.
std::set<std::filesystem::path> ranks_in(const std::filesystem::path& directory);

// In a few lines: what the program recorded into `directory`, and what is known of what it did not record. The ranks
// in `before` are of an earlier program. Whatever cannot be read is a line as well, never an error.
void report_run(const std::filesystem::path& directory, const std::set<std::filesystem::path>& before, Output& out);

}  // namespace ttap::cli
