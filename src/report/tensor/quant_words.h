#pragma once

#include <string>

#include "analyze/check/quant_check.h"
#include "report/text/json_writer.h"

// What quantizing does to a tensor, in words and in JSON.
namespace ttap {

std::string sqnr_text(double sqnr_db);                 // 20.3 dB, exact
std::string percent_text(double percent);              // 0.2 %
std::string range_text(double powers);                 // 2^14.2
std::string recipe_text(const QuantOutcome& outcome);  // nvfp4, nvfp4 (in use)

// "loses 12 % of its values to underflow in nvfp4; mxfp8_e4m3 keeps 38 dB"
std::string quant_words(const QuantFinding& finding);

// Members of the object that is open.
void write_quant_stats(JsonWriter& json, const QuantStats& stats);

}  // namespace ttap
