#pragma once

#include "report/log/log.h"
#include "report/text/json_writer.h"

namespace ttap {

// The events that the options ask for, as an array with one of them on each line (docs/commands.md: "event").
Status write_events(JsonWriter& json, const Pass& pass, const LogOptions& options, const Output& out);

}  // namespace ttap
