#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyze/nonfinite.h"
#include "analyze/verify.h"
#include "cli/command.h"
#include "report/output.h"

// What `ttap check` found, kept apart from the passes, which are closed one after the other.
namespace ttap::cli {

struct CheckedTensor {
  uint32_t rank = 0;
  int64_t pid = 0;
  uint32_t pass = 0;
  size_t index = 0;
  std::string key = {};
  DType dtype = DType::kF32;
  std::vector<int64_t> shape = {};
  Nonfinite counts = {};  // of one that was found
};

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
  size_t tensors_in_pass = 0;
  std::string role = {};
  bool has_bytes = false;
  std::optional<Located> place = {};
  std::optional<Event> event = {};
  std::vector<CheckedInput> inputs = {};
  std::optional<std::string> before = {};  // key of the last tensor before it that is known to be clean
  Format format = Format::kSegment;
};

struct CheckedPass {
  uint32_t rank;
  int64_t pid;
  PassInfo info;
};

struct CheckTrouble {
  CheckedTensor tensor;
  Error error;
};

struct CheckReport {
  std::string path = {};
  std::string filter = {};
  bool verified = false;
  uint64_t judged = 0;
  uint64_t unwanted = 0;
  std::optional<FirstFinding> first = {};  // more about found.front()
  std::vector<CheckedTensor> found = {};
  std::vector<CheckTrouble> unjudged = {};
  uint64_t verified_tensors = 0;
  uint64_t verified_bytes = 0;
  uint64_t without_hash = 0;
  std::vector<CheckTrouble> damaged = {};
  std::vector<CheckedPass> passes = {};
  std::vector<Error> unreadable = {};  // passes that could not be opened

  // An error outweighs a finding: the answer is not whole.
  ExitCode exit_code() const;
};

void draw_report(const CheckReport& report, Output& out);
void write_json(const CheckReport& report, Output& out);

}  // namespace ttap::cli
