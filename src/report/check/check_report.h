#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyze/check/losses.h"
#include "analyze/check/verify.h"
#include "report/check/checked_tensor.h"
#include "report/check/origin.h"
#include "report/text/output.h"

// What `ttap check` found, kept apart from the passes, which are closed one after the other.
namespace ttap {

struct CheckedInput {
  CheckedTensor tensor;
  std::optional<Stats> stats;
  bool finite;  // known to be
};

struct FirstFinding {
  struct Event {
    std::string kind;
    std::string name;
    uint32_t call;
    std::string parents;
    std::string stack;
  };
  CheckedTensor tensor = {};
  size_t tensors_in_pass = 0;
  std::string role = {};
  bool has_bytes = false;
  std::optional<Located> place = {};
  std::optional<Event> event = {};
  std::vector<CheckedInput> inputs = {};
  std::optional<std::string> before = {};  // key of the last tensor before it that is known to be clean
  Format format = Format::kSegment;
  std::optional<OriginReport> origin_report = {};  // where the recording says what calls used

  // Whether something is wrong, rather than on purpose or of no consequence.
  bool is_fault() const { return !origin_report || origin_report->first.fault; }
};

struct CheckedPass {
  uint32_t rank;
  int64_t pid;
  PassInfo info;
};

struct CheckedSuspect {
  CheckedTensor tensor;
  Suspicion suspicion;
  Stats stats;
};

struct CheckTrouble {
  CheckedTensor tensor;
  Error error;
};

// How many tensors could not be judged, and the first of them with the reason; nothing where there are none.
void draw_unjudged(std::span<const CheckTrouble> unjudged, Output& out);

struct TTAP_API CheckReport {
  std::string path = {};
  std::string filter = {};
  bool verified = false;
  uint64_t judged = 0;
  uint64_t unwanted = 0;
  bool all = false;                        // every tensor is listed
  std::optional<FirstFinding> first = {};  // the first fault, else the first found
  std::vector<CheckedTensor> found = {};
  std::vector<CheckTrouble> unjudged = {};
  std::vector<CheckedSuspect> suspects = {};  // of finite values; shown with `all`
  uint64_t verified_tensors = 0;
  uint64_t verified_bytes = 0;
  uint64_t without_hash = 0;
  std::vector<CheckTrouble> damaged = {};
  std::vector<CheckedPass> passes = {};
  uint64_t without_value = 0;          // tensors without a value: uninitialised memory, meta and fake tensors
  uint64_t warm_ups = 0;               // passes that only warm up: what is in their tensors is no fault
  std::vector<Error> unreadable = {};  // passes that could not be opened
  Losses lost = {};                    // nothing is known of these
  uint32_t run = 1, runs = 1;          // which of the runs in its directory

  // Whether the answer is whole: every pass could be opened, and every tensor with statistics judged.
  bool complete() const;
  bool clean() const { return found.empty() && damaged.empty(); }
  // Whether `clean` speaks of all that the program had in these passes.
  bool conclusive() const { return !clean() || !lost.any(); }
};

// Members of whatever was checked: a list of tensors with what is wrong, then `passes` and `unreadable`.
void write_troubles(JsonWriter& json, std::string_view name, std::span<const CheckTrouble> troubles);
void write_passes(JsonWriter& json, const std::vector<CheckedPass>& passes, const std::vector<Error>& unreadable);

struct CheckOptions {
  PassSelection selection = {};
  std::function<bool(std::string_view key)> wanted = {};  // besides the filter of the selection
  bool verify = false;                                    // also read every byte that was kept
  bool all = false;                                       // the text lists every tensor, also what is meant to be so
  std::function<void(uint64_t done, uint64_t total)> progress = {};  // in tensors of a pass
};
// The first NaN or Inf of the passes, and every later one.
TTAP_API Result<CheckReport> check_run(const CheckOptions& options);

TTAP_API void draw_report(const CheckReport& report, Output& out);
TTAP_API void write_json(const CheckReport& report, Output& out);

}  // namespace ttap
