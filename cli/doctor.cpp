#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "cli/arguments/command.h"
#include "cli/arguments/command_line.h"
#include "cli/doctor/disk_speed.h"
#include "cli/doctor/python_facts.h"
#include "cli/python/python_program.h"
#include "cli/run/environment.h"
#include "cuda/runtime/runtime.h"
#include "report/text/json_writer.h"
#include "report/text/text.h"
#include "store/segment/disk_pace.h"
#include "ttap/fingerprint.h"
#include "ttap/version.h"

namespace ttap::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHelp = R"(
Says what of TensorTap works on this machine, and what to do about what does not:
the command, the Python package, which operators of which PyTorch can be observed,
the GPU, and how fast a directory takes what is recorded. Exit code 0 when all of
it works, 1 when something is missing.

Examples:
  ttap doctor
  ttap doctor /scratch/runs --python ~/venv/bin/python
  ttap doctor --json)";

struct Arguments {
  SelectionOptions output;
  std::string directory = ".";
  std::string python;
};

struct Check {
  std::string name;
  bool works = true;
  std::string text;
  std::string hint = {};  // where it does not work
};

std::string machine_text() {
#if defined(__x86_64__)
  return "x86-64";
#elif defined(__aarch64__)
  return "ARM64";
#else
  return "this machine";
#endif
}

Check check_command() {
  return {.name = "command", .text = fmt::format("{} on {}, {} kernels", version(), machine_text(), simd_path_name())};
}

void check_python(const std::string& python, std::vector<Check>& checks) {
  const auto launch = launch_folder();
  if (!launch.ok()) {
    checks.push_back({"package", false, launch.error().message, launch.error().hint});
    return;
  }
  const auto facts = ask_python(python, *launch);
  if (!facts.ok()) {
    checks.push_back({"python", false, facts.error().message, facts.error().hint});
    return;
  }
  checks.push_back({.name = "python", .text = fmt::format("{}, {}", facts->version, facts->executable)});
  if (facts->package.empty())
    checks.push_back({"package", false, fmt::format("tensortap cannot be imported: {}", facts->package_error),
                      fmt::format("install it for that interpreter: {} -m pip install tensortap", facts->executable)});
  else
    checks.push_back({.name = "package", .text = facts->package});
  if (facts->torch.empty()) {
    checks.push_back(
        {"PyTorch", false,
         fmt::format("cannot be imported, so nothing can be recorded from Python: {}", facts->torch_error),
         fmt::format("{} -m pip install torch; recordings can be read and compared without it", facts->executable)});
    return;
  }
  checks.push_back({.name = "PyTorch",
                    .text = facts->torch + (facts->torch_gpu.empty() ? ", no GPU" : ", uses " + facts->torch_gpu)});
  checks.push_back(
      {"operators", facts->sees_operators, facts->operators,
       facts->sees_operators ? "" : "until then, modules, probes and graphs are recorded; operators are not"});
}

Check check_gpu() {
  if (cuda::available()) {
    const int count = cuda::device_count();
    return {.name = "GPU",
            .text = fmt::format("{}; tensors are fingerprinted there", count_text(count, "GPU", "GPUs"))};
  }
  std::error_code ignored;
  const bool driver = fs::exists("/proc/driver/nvidia/version", ignored);
  if (!driver) return {.name = "GPU", .text = "none on this machine"};
  return {"GPU", false,
          fmt::format("there is a driver, but tensors are copied to the host first: {}", cuda::unavailable_reason()),
          "from source: make build CUDA=1, or pip install . -C cmake.define.TTAP_CUDA=ON"};
}

Check check_disk(const std::string& directory) {
  const auto speed = measure_disk_speed(directory);
  if (!speed.ok())
    return {"disk", false, fmt::format("{}: {}", directory, speed.error().message),
            "name a directory that can be written to: ttap doctor DIR"};
  const bool fast = speed->direct && speed->bytes_per_second >= DiskPace::kFastBytesPerSecond;
  return {.name = "disk",
          .text = fmt::format("{}: {}/s, {} free; large tensors are written {}", directory,
                              bytes_text(static_cast<uint64_t>(speed->bytes_per_second)), bytes_text(speed->free_bytes),
                              fast            ? "directly"
                              : speed->direct ? "through the page cache, since the disk is slow"
                                              : "through the page cache: it takes no direct writes")};
}

void print_text(const std::vector<Check>& checks, Output& out) {
  for (const Check& check : checks) {
    out.write(check.works ? Style::kGreen : Style::kRed, check.works ? "ok      " : "missing ");
    out.print("{:<10} {}\n", check.name, printable(check.text));
    if (!check.works && !check.hint.empty()) out.print("{:<19}{}\n", "", printable(check.hint));
  }
}

void print_json(const std::vector<Check>& checks, bool works, Output& out) {
  JsonWriter json(out);
  json.begin_object().member("command", "doctor").member("version", version()).member("works", works);
  json.key("checks").begin_array();
  for (const Check& check : checks)
    json.begin_line()
        .member("name", check.name)
        .member("works", check.works)
        .member("text", check.text)
        .member("hint", check.hint)
        .end();
  json.end().end();
}

}  // namespace

void add_doctor(CommandLine& line, Command& command) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = line.add_verb("doctor", "Says what works on this machine, and what is missing");
  verb.add_option("DIR", arguments->directory, "Where recordings will go; the current directory by default")
      .type_name("");
  verb.add_option("--python", arguments->python,
                  "The interpreter to ask; by default the one beside the command, else that of the PATH")
      .type_name("PATH");
  add_output_options(verb, arguments->output);
  verb.footer(kHelp);
  verb.callback([arguments, &command] {
    command = {"doctor", &arguments->output, [arguments](Output& out) -> Result<ExitCode> {
                 std::vector<Check> checks = {check_command()};
                 check_python(arguments->python.empty() ? usual_python() : arguments->python, checks);
                 checks.push_back(check_gpu());
                 checks.push_back(check_disk(arguments->directory));
                 const bool works = std::ranges::all_of(checks, &Check::works);
                 arguments->output.json ? print_json(checks, works, out) : print_text(checks, out);
                 return works ? kFine : kFinding;
               }};
  });
}

}  // namespace ttap::cli
