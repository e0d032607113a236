#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyze/check/rank_origins.h"
#include "report/check/checked_tensor.h"
#include "report/text/output.h"

// What `ttap check` says of where a NaN or Inf came from, by what each call used.
namespace ttap {

struct DescribedArgument {
  std::string path;
  std::optional<uint32_t> rank = {};  // of a contribution to a collective: who gave it
  bool written = false;
  std::optional<CheckedTensor> tensor = {};  // nothing: its value was not recorded
  std::optional<Stats> stats = {};
  bool finite = false;    // known to be
  std::string from = {};  // the call that returned it; empty when none did that was recorded
};

// A collective, and what is known of what each rank gave to it.
struct DescribedCollective {
  std::string op;
  std::string group;
  uint32_t number = 0;
  std::string text;  // with all of these
  struct Contribution {
    uint32_t group_rank = 0;
    std::optional<uint32_t> rank = {};  // nothing: not recorded
    bool known = false;
    bool finite = false;
    std::string missing = {};
  };
  std::vector<Contribution> contributions = {};
  std::string problem = {};
};

// A collective that brought it to other ranks.
struct DescribedSpread {
  std::string op;
  std::string group;
  uint32_t number = 0;
  std::string text;  // with all of these
  uint32_t from = 0;
  std::vector<uint32_t> to = {};
};

struct DescribedOrigin {
  OriginKind kind = OriginKind::kMade;
  bool fault = false;
  bool harmless = false;
  uint64_t heirs = 0;
  CheckedTensor tensor = {};
  struct Call {
    std::string name;
    uint32_t number = 1;
    bool backward = false;
    std::string module = {};  // it ran in
    std::string text = {};
    std::vector<std::string> stack = {};  // the program's own frames, innermost first
  };
  std::optional<Call> call = {};
  std::optional<Call> forward = {};  // of a call of the backward: the one it differentiates
  std::vector<DescribedArgument> arguments = {};
  std::vector<std::string> hints = {};
  std::vector<DescribedCollective> collectives = {};  // where it came out of one
  std::string first_reader = {};  // of uninitialised memory: key of the first tensor computed from it
};

struct OriginReport {
  DescribedOrigin first;
  std::optional<DescribedOrigin> inf_from = {};    // of the Inf that `first` made NaN of
  std::optional<DescribedOrigin> became_nan = {};  // what made NaN of the Inf of `first`
  struct Other {
    OriginKind kind;
    bool fault;
    bool harmless;
    uint64_t heirs;
    CheckedTensor tensor;
  };
  std::vector<Other> others = {};
  std::vector<DescribedSpread> spread = {};  // of `first` to other ranks
};

// The passes that were recorded together on the ranks of a run, and where their NaN and Inf came from.
struct CheckedStep {
  std::vector<SelectedPass> selected = {};
  std::vector<std::shared_ptr<const Pass>> passes = {};
  std::optional<RankOrigins> origins = {};
};

// `first` is the origin to report.
OriginReport report_origin(const CheckedStep& step, OriginPlace first);

void draw_origin_report(const OriginReport& origin_report, Output& out);
std::string because_text(const CheckedTensor::Because& because);

// The value of a member of the object that is open.
void write_origin_report(JsonWriter& json, const OriginReport& origin_report);

}  // namespace ttap
