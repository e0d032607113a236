#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/diff/diff.h"
#include "report/text/output.h"

// How a comparison is presented: in a sentence, as a table, as JSON, as CSV.
namespace ttap {

// The answer: "diverged: encoder.layer.3.output.LayerNorm introduced the error".
TTAP_API std::string verdict_sentence(const DiffReport& report);
// What it rests on, one fact a line.
TTAP_API std::vector<std::string> evidence_lines(const DiffReport& report);

struct DrawDiffOptions {
  size_t rows = 20;      // of the table
  bool all = false;      // list what agrees, too, and every row
  bool matches = false;  // list what was matched with what
};
TTAP_API void draw_diff(const DiffReport& report, const DrawDiffOptions& options, Output& out);

TTAP_API void write_diff_json(const DiffReport& report, Output& out);
TTAP_API void write_diff_csv(const DiffReport& report, Output& out);
// One HTML file that needs nothing else (diff_page.h), with the charts of report.details.
TTAP_API Status write_diff_page(const DiffReport& report, const std::string& path);

// What makes the command fail: the name of a verdict or cause ("diverged", "missing", "introduced", …), or a Predicate
// on the measures ("max_abs>1e-3"). Several: any of them.
class TTAP_API FailOn {
 public:
  static Result<FailOn> parse(const std::vector<std::string>& texts);
  bool holds(const DiffReport& report) const;
  bool empty() const { return words_.empty() && predicates_.empty(); }

 private:
  std::vector<std::string> words_;
  std::vector<Predicate> predicates_;
};

// Whether the runs are the same as far as this comparison asks: what exit code 0 says.
TTAP_API bool is_same(const DiffReport& report, const FailOn& fail_on);

}  // namespace ttap
