#pragma once

#include <string>

#include "report/run/selection.h"
#include "report/text/terminal.h"

namespace ttap::cli {

class Verb;

// The options that commands share, as given.
struct SelectionOptions : PassSelection {  // RUN, --pass, --rank, --filter
  ColorChoice color = ColorChoice::kAuto;
  bool json = false;
};
void add_run_argument(Verb& verb, SelectionOptions& options);    // RUN, --color, --json
void add_output_options(Verb& verb, SelectionOptions& options);  // --color, --json
void add_pass_and_rank(Verb& verb, SelectionOptions& options);
void add_filter(Verb& verb, SelectionOptions& options, const std::string& help);

}  // namespace ttap::cli
