#pragma once

#include <string>
#include <vector>

#include "analyze/diff/diff.h"
#include "report/text/json_writer.h"

// The sentence that says that one side's weights are quantized.
namespace ttap {

// "B's weights are quantized (nvfp4), and all 28 layers are as their format explains; …"; empty where no weights are.
std::string quantized_sentence(const DiffReport& report);
// What it rests on, one fact a line.
std::vector<std::string> quantized_lines(const DiffReport& report);
// An object, or null.
void write_quantized(JsonWriter& json, const DiffReport& report);

}  // namespace ttap
