#pragma once

#include <string>
#include <vector>

#include "analyze/mismatch/mismatch.h"
#include "report/text/output.h"

// How the mismatch of a rollout and its trainer is presented.
namespace ttap {

// "faulty: probabilities differ by 0.0213 in the mean, over 96 tokens of 8 requests (below 0.005 is normal)".
std::string mismatch_sentence(const MismatchReport& report);
// Why, the most certain first; empty where nothing was found.
std::vector<std::string> mismatch_causes(const MismatchReport& report);

TTAP_API void draw_mismatch(const MismatchReport& report, Output& out);
TTAP_API void write_mismatch_json(const MismatchReport& report, Output& out);
// A picture as SVG: the probabilities of both, and the log-ratio along the texts.
TTAP_API void write_mismatch_plot(const MismatchReport& report, Output& out);

}  // namespace ttap
