#pragma once

#include <cstdint>
#include <functional>

#include "capture/pass_sink.h"
#include "capture/staging_ring.h"

namespace ttap {

// The recorder's writer thread: hands the records to the sink in batches and frees their room. `flushed` gets the
// ticket of a flush record when everything before it is in the file. Returns when it meets the stop record.
void run_writer_station(StagingRing& ring, PassSink& sink, const std::function<void(uint64_t)>& flushed);

}  // namespace ttap
