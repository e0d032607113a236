#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "report/text/output.h"
#include "store/sources/module_facts.h"
#include "ttap/api.h"
#include "ttap/run.h"

// What ran in a pass, event by event: as text to read, as JSON, and as files for the viewers people have already. All
// of it is written as it is read: a pass of any length needs a few bytes of memory per event.
namespace ttap {

enum class StackFrames : uint8_t {
  kNone,
  kUser,  // but those inside PyTorch, TensorTap and Python itself
  kAll,
};

struct LogOptions {
  // Which events.
  std::string filter = {};              // in whose name, or target, this PCRE2 pattern is found; empty: all
  std::string module = {};              // of this module and those below it; empty: all
  std::optional<uint32_t> around = {};  // the event, and its `neighbours`
  size_t neighbours = 10;               // before it, and as many behind it
  // What of them; the text only.
  StackFrames stack = StackFrames::kNone;
  bool inputs = false;                     // the hashes of the arguments
  bool strides = false;                    // of tensors that are not in C order
  bool keys = false;                       // the key of each event, as find_event() takes it
  const ModulesByName* modules = nullptr;  // for the class of those whose events do not say it
};

// The event that `key` means: `name[::callN]`, or the key of one of its tensors. kNotFound with those that are similar.
TTAP_API Result<uint32_t> find_event(const Pass& pass, std::string_view key);

// The text (docs/commands.md says how to read it). Fails, as all below, when the filter is not a pattern, and then
// writes nothing.
TTAP_API Status draw_log(const Pass& pass, const LogOptions& options, Output& out);

// A JSON array of one object for each event.
TTAP_API Status write_log_json(const Pass& pass, const LogOptions& options, Output& out);

// The process that made a pass, for viewers.
struct LogSource {
  uint32_t rank = 0;
  int64_t pid = 0;
};

// Trace events as chrome://tracing defined them and ui.perfetto.dev reads them: a slice for each event, by process and
// thread, and an arrow from each op of the forward to those of the backward that differentiate it.
class TTAP_API PerfettoWriter {
 public:
  // Times are counted from `started_unix_ns`: the beginning of the earliest pass.
  PerfettoWriter(Output& out, uint64_t started_unix_ns);
  ~PerfettoWriter();
  PerfettoWriter(const PerfettoWriter&) = delete;
  PerfettoWriter& operator=(const PerfettoWriter&) = delete;

  Status add(const Pass& pass, const LogOptions& options, const LogSource& source);
  void finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Graphs for Model Explorer, one for each pass: a node for each op and for each value that came from outside, an edge
// from the op that made a value to each that used it, modules as nested layers. A pass without ops: its modules.
class TTAP_API ModelExplorerWriter {
 public:
  explicit ModelExplorerWriter(Output& out);
  ~ModelExplorerWriter();
  ModelExplorerWriter(const ModelExplorerWriter&) = delete;
  ModelExplorerWriter& operator=(const ModelExplorerWriter&) = delete;

  Status add(const Pass& pass, const LogOptions& options, const LogSource& source);
  void finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ttap
