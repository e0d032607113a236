#include "cli/arguments/selection.h"

#include <map>

#include "cli/arguments/command_line.h"

namespace ttap::cli {

void add_run_argument(Verb& verb, SelectionOptions& options) {
  verb.add_option("RUN", options.path,
                  "A run, a rank directory, or one pass: .ttap, .pt, .safetensors, a folder of .npy")
      .required()
      .type_name("");
  add_output_options(verb, options);
}

void add_output_options(Verb& verb, SelectionOptions& options) {
  verb.add_flag("--json", options.json, "One JSON document instead of text (docs/commands.md)");
  static const std::map<std::string, ColorChoice> kChoices = {
      {"auto", ColorChoice::kAuto}, {"always", ColorChoice::kAlways}, {"never", ColorChoice::kNever}};
  verb.add_option("--color", options.color, kChoices,
                  "auto (default: on a terminal, unless NO_COLOR is set), always or never")
      .type_name("WHEN");
}

void add_pass_and_rank(Verb& verb, SelectionOptions& options) {
  verb.add_option("--pass", options.passes, "Only these passes: 3, or 0,2, or 1,4-7").type_name("N[,M-K]");
  verb.add_option("--rank", options.ranks, "Only these ranks, written likewise").type_name("R[,S-T]");
}

void add_filter(Verb& verb, SelectionOptions& options, const std::string& help) {
  verb.add_option("--filter", options.filter, help).type_name("REGEX");
}

}  // namespace ttap::cli
