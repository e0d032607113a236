#pragma once

#include "report/text/json_writer.h"
#include "ttap/record.h"

// A record said the same way in every JSON document.
namespace ttap {

// {"key", "name", …, "hash"}: members of the object that is open.
void write_tensor_members(JsonWriter& json, size_t index, const TensorRecord& tensor);
void write_stats(JsonWriter& json, const Stats& stats);

}  // namespace ttap
