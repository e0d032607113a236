#include <fmt/format.h>

#include "cli/arguments/command.h"
#include "cli/arguments/command_line.h"
#include "cli/messages/error_text.h"
#include "cli/messages/progress.h"
#include "report/run/describe.h"
#include "report/text/text.h"
#include "store/sources/run_layout.h"

namespace ttap::cli {
namespace fs = std::filesystem;
namespace {

constexpr const char* kHelp = R"(
Writes DIR/rankR_pidP/passNNNNN.pt or .safetensors, or a folder passNNNNN/ of .npy
files. Tensors of which only metadata or a fingerprint was kept have no bytes to
write; they are counted. bf16 and fp8 become float32 in .npy, which lacks them.

Examples:
  ttap export out/run --format safetensors -o out/safetensors
  ttap export out/run --format pt --pass 0 --rank 0 -o out/pt
  ttap export out/run/rank0_pid7/pass00003.ttap --format npy --filter mlp -o out/npy)";

struct ExportOptions {
  SelectionOptions selection;
  std::string format_name;
  std::string directory;

  Format format() const { return format_from_name(format_name).value(); }  // one of those the parser let through
};

struct Outcome {
  std::vector<std::pair<std::string, Exported>> exported;
  std::vector<FailedFile> failed;
};

uint64_t size_of_pass(const SelectedPass& selected) {
  std::error_code error;
  const uintmax_t size = fs::file_size(selected.file->path, error);
  return error ? 0 : size;
}

Outcome export_all(const Selection& selection, const ExportOptions& options) {
  Outcome outcome;
  uint64_t total = 0;
  for (const SelectedPass& selected : selection.passes) total += 2 * size_of_pass(selected);
  Progress progress("exporting", total);  // half of it is reading
  for (const SelectedPass& selected : selection.passes) {
    const auto wanted = [&](const TensorRecord& tensor) {
      progress.advance(tensor.has_bytes ? tensor.byte_count : 0);
      return selection.wants(tensor);
    };
    const std::string path = selected.file->path.string();
    const fs::path folder = fs::path(options.directory) /
                            exported_rank_name(selected.rank->path, selected.rank->number, selected.rank->pid);
    auto pass = open_pass(selected);
    auto exported = pass.ok() ? export_pass(*pass, options.format(), folder, wanted) : Result<Exported>(pass.error());
    if (exported.ok()) {
      outcome.exported.emplace_back(path, std::move(exported).value());
    } else {
      outcome.failed.push_back({path, std::move(exported).error()});
    }
    progress.advance(size_of_pass(selected));
  }
  return outcome;
}

void print_text(const Outcome& outcome, Output& out) {
  uint64_t tensors = 0;
  uint64_t without_bytes = 0;
  for (const auto& [from, exported] : outcome.exported) {
    tensors += exported.tensors;
    without_bytes += exported.without_bytes;
    out.print("{}: {}", printable(exported.path.string()), count_text(exported.tensors, "tensor", "tensors"));
    const uint64_t not_recorded = exported.without_bytes - exported.missing;
    if (not_recorded > 0) out.write(Style::kYellow, fmt::format(", {} left out: no bytes were recorded", not_recorded));
    if (exported.missing > 0)
      out.write(Style::kRed,
                fmt::format(", {} left out: the bytes are in another pass, and not found there", exported.missing));
    out.write("\n");
  }
  if (outcome.exported.size() > 1)
    out.print("{} exported: {}, {} without bytes\n", count_text(outcome.exported.size(), "pass", "passes"),
              count_text(tensors, "tensor", "tensors"), without_bytes);
}

void print_json(const Outcome& outcome, const Run& run, const ExportOptions& options, Output& out) {
  JsonWriter json(out);
  json.begin_object().member("command", "export");
  write_run_members(json, run);
  json.member("format", to_string(options.format())).member("directory", options.directory);
  json.key("exported").begin_array();
  for (const auto& [from, exported] : outcome.exported) {
    json.begin_line().member("from", from).member("path", exported.path.string());
    json.member("tensors", exported.tensors).member("without_bytes", exported.without_bytes);
    json.member("missing", exported.missing).end();
  }
  json.end();
  write_failed(json, outcome.failed);
  json.end();
}

}  // namespace

void add_export(CommandLine& line, Command& command) {
  auto options = std::make_shared<ExportOptions>();
  Verb verb = line.add_verb("export", "Writes passes as .pt, .safetensors or .npy");
  add_run_argument(verb, options->selection);
  verb.add_option("--format", options->format_name, "pt, safetensors or npy")
      .required()
      .one_of({"pt", "safetensors", "npy"})
      .type_name("FORMAT");
  verb.add_option("-o,--output", options->directory, "Where to; made if missing").required().type_name("DIR");
  add_pass_and_rank(verb, options->selection);
  add_filter(verb, options->selection, "Only tensors in whose key this PCRE2 pattern is found");
  verb.footer(kHelp);
  verb.callback([options, &command] {
    command = {"export", &options->selection, [options](Output& out) -> Result<ExitCode> {
                 TTAP_ASSIGN(const Selection selection, select_some_passes(options->selection));
                 const Outcome outcome = export_all(selection, *options);
                 options->selection.json ? print_json(outcome, *selection.run, *options, out)
                                         : print_text(outcome, out);
                 out.flush();
                 return print_errors("export", outcome.failed);
               }};
    command.takes_newest_run = true;
  });
}

}  // namespace ttap::cli
