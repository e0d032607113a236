#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ttap/result.h"

// `ttap run --graft RUN:KEY`: tensors of an earlier run that are put into the program.
namespace ttap::cli {

struct GraftOptions {
  std::vector<std::string> from = {};        // RUN:KEY each
  std::optional<std::string> names_of = {};  // a run of the program, where it has other names
};

// What TTAP_GRAFT holds: JSON with the keys by run, and whose names they go by. The runs are opened here, for an error
// before anything is run. None without grafts. `directory` is where the program is recorded: no run to graft from, for
// the newest one there would be the program's own.
Result<std::optional<std::string>> grafts_json(const GraftOptions& options,
                                               const std::optional<std::string>& directory);

}  // namespace ttap::cli
