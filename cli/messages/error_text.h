#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/arguments/command.h"
#include "report/text/json_writer.h"
#include "ttap/result.h"

namespace ttap::cli {

// To stderr: what happened, where, what to do.
void print_error(std::string_view command, const Error& error);

// A file of several that a command could not read or write, while it went on with the others.
struct FailedFile {
  std::string path;
  Error error;
};
// The exit code: kError where there is one.
ExitCode print_errors(std::string_view command, std::span<const FailedFile> failed);
// As the member `failed` of the object that is open.
void write_failed(JsonWriter& json, std::span<const FailedFile> failed);

}  // namespace ttap::cli
