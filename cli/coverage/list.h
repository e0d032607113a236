#pragma once

#include "cli/arguments/command.h"
#include "report/text/output.h"
#include "ttap/run.h"

// `ttap ls RUN --coverage`: all that each rank's coverage.json says. A rank without one is said to have none; one that
// cannot be read is an error on stderr, after the others.
namespace ttap::cli {

ExitCode list_coverage(const Run& run, Output& out);
ExitCode write_coverage_json(const Run& run, Output& out);

}  // namespace ttap::cli
