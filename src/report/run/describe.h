#pragma once

#include <string>

#include "report/run/selection.h"
#include "report/tensor/record_json.h"
#include "report/text/json_writer.h"
#include "report/text/text.h"
#include "ttap/run.h"

// Passes, events and errors said the same way by every command, in words and in JSON.
namespace ttap {

std::string rank_text(const Rank& rank);        // rank 0 (pid 4711)
std::string ending_text(const PassInfo& info);  // incomplete, still being written
Style ending_style(const PassInfo& info);
std::string drops_text(const DropCounts& drops);  // 3 dropped (quota 2, disk full 1); empty when none
std::string torn_text(const PassInfo& info);      // N bytes after byte M are not readable: why; empty when sound
// The events around an event, outermost first: `model > model.layers.0`; empty when there is none.
std::string parents_text(const Pass& pass, uint32_t event);

// {"path", "run", "runs"} of a run: members of the object that is open.
void write_run_members(JsonWriter& json, const Run& run);
// {"rank", "pid", "pass", …} of a pass: members of the object that is open.
void write_pass_members(JsonWriter& json, const SelectedPass& selected, const Pass& pass);
// {"rank", "pid", "pass", "path", "error"} of a pass that cannot be opened.
void write_unreadable(JsonWriter& json, const SelectedPass& selected, const Error& error);
// The part of it that says how sound the pass is: {"path", …, "ending", "problem", "drops"}.
void write_condition(JsonWriter& json, const PassInfo& info);
// The event a tensor belongs to, or null.
void write_event(JsonWriter& json, const Pass& pass, uint32_t event);
void write_located(JsonWriter& json, const Located& value, std::span<const int64_t> shape);
// What to do about an error that brought no advice of its own.
std::string_view advice_for(ErrorCode code);
void write_error(JsonWriter& json, const Error& error);

}  // namespace ttap
