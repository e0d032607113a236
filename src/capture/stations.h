#pragma once

#include <cstdint>
#include <functional>

#include "capture/pass_sink.h"
#include "capture/staging_ring.h"

// The recorder's two threads: what happens to a record between capture() and the file. Both return when they meet the
// stop record.
namespace ttap {

// Takes the fingerprint of every tensor, in place.
void run_fingerprint_station(StagingRing& ring);

// Hands the records to the sink in batches and frees their room. `flushed` gets the ticket of a flush record when
// everything before it is in the file.
void run_writer_station(StagingRing& ring, PassSink& sink, const std::function<void(uint64_t)>& flushed);

}  // namespace ttap
