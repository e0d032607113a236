#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ttap/api.h"
#include "ttap/result.h"

// Two recordings in, one answer out: where they first differ, and which operator is to blame.
namespace ttap {

enum class Verdict : uint8_t {
  kIdentical,      // the same bits
  kWithin,         // within tolerance
  kDiverged,       // out of tolerance
  kInconclusive,   // the bits differ, or one side kept nothing to compare, and there are no bytes to tell how far
  kMissing,        // only A has it
  kExtra,          // only B has it
  kShapeMismatch,  // nothing to compare element by element
  kFlipped,        // a choice (topk, argmax, a comparison) between values that tie within the error that came in
};
inline constexpr int kVerdicts = 8;
TTAP_API std::string_view to_string(Verdict verdict);  // "identical", "within tolerance", …

enum class Cause : uint8_t { kNone, kIntroduced, kInherited, kUnknown };
TTAP_API std::string_view to_string(Cause cause);  // "", "introduced", "inherited", "unknown"

struct ToleranceOptions {
  std::optional<double> rtol = {};
  std::optional<double> atol = {};
  bool equal_nan = false;
  std::vector<std::string> rules = {};  // 'REGEX=rtol,atol' or 'REGEX=PREDICATE'; the first that matches counts
  double noise_factor = 4;              // the tolerance is this many times the noise measured
};

struct DiffOptions {
  std::string passes = {};  // "3", "3:0" (A's 3 with B's 0), "0-4:10-14", several with commas; empty for all
  std::string ranks = {};   // likewise
  // Whether tensors are compared token by token, across passes; not set: where both runs say which tokens their passes
  // computed, and these differ from pass to pass.
  std::optional<bool> by_token = {};
  // Token by token: only these requests of A, each up to this position; empty for all.
  std::map<std::string, int64_t> last_positions = {};
  std::string filter = {};  // a pattern that is found in the keys to compare; empty for all
  std::function<bool(std::string_view key)> wanted = {};  // besides the filter; asked by the thread that compares
  std::string map = {};                                   // path of a mapping file
  std::string shards = {};                                // path of a rule file
  std::string noise = {};                                 // another run of the reference
  bool structure = true;                                  // match by structure what keys and map leave over
  bool all_ops = false;                                   // also those that ran before the first call of a module
  // Only the same bits, what rounding explains, tolerances and the rules above decide: nothing is matched by values or
  // structure, no match is undone, and neither statistics that look like rounding nor other calls of a kind count.
  bool strict = false;
  ToleranceOptions tolerance = {};
  unsigned threads = 0;  // 0: one per core
  // Called from one thread at a time with bytes done and bytes in all.
  std::function<void(uint64_t, uint64_t)> progress = {};
};

// A tensor of both runs, or of one.
struct DiffedTensor {
  std::string key_a = {}, key_b = {};  // empty: that side has none
  Verdict verdict = Verdict::kIdentical;
  Cause cause = Cause::kNone;
  std::string reason = {};  // of the cause, or why it is inconclusive
  // NaN where the values were not compared.
  double max_abs = std::numeric_limits<double>::quiet_NaN();
  double relative = std::numeric_limits<double>::quiet_NaN();  // rmse beside the root mean square of A
};

struct DiffReport;  // src/analyze/diff/diff.h

class TTAP_API Diff {
 public:
  // `a` is the reference. Each is a run, a rank, a pass, or a single file of any format that can be read.
  static Result<Diff> compare(const std::filesystem::path& a, const std::filesystem::path& b,
                              const DiffOptions& options = {});
  Diff(Diff&&) noexcept;
  Diff& operator=(Diff&&) noexcept;
  ~Diff();

  Verdict verdict() const;       // identical, within tolerance, diverged or inconclusive
  std::string sentence() const;  // "diverged: encoder.layer.3.output.LayerNorm introduced the error"
  // Whether the runs agree. With `fail_on`, whether no tensor is so: the name of a verdict or cause, or a predicate on
  // the measures ("max_abs>1e-3"). kInvalidArgument when one of them is neither.
  Result<bool> same(const std::vector<std::string>& fail_on = {}) const;

  size_t tensor_count() const;
  DiffedTensor tensor(size_t index) const;  // pass by pass, in execution order
  // The one to look at: the first that an operator made different; where none is known to have, the first that differs.
  std::optional<size_t> first() const;

  // As `ttap diff` prints it.
  std::string text(bool all = false, size_t rows = 20) const;
  std::string json() const;
  std::string csv() const;
  // One HTML file that needs nothing else, with charts for at most `details` tensors.
  Status write_page(const std::filesystem::path& path, size_t details = 200);

 private:
  Diff(std::unique_ptr<DiffReport> report, unsigned threads);
  std::unique_ptr<DiffReport> report_;
  unsigned threads_;
};

}  // namespace ttap
