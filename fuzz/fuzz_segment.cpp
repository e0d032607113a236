#include <cstdint>
#include <cstring>
#include <vector>

#include "format/segment_view.h"
#include "format/value_index.h"
#include "mended_segment.h"
#include "ttap/fingerprint.h"

namespace ttap {
namespace {

// Reads everything a segment gives, as the commands would.
void read_all(std::span<const std::byte> bytes) {
  const auto view = format::SegmentView::parse(bytes);
  if (!view.ok()) return;
  uint64_t sum = view->begin_json().size() + (view->end_json() ? view->end_json()->size() : 0);
  const format::ValueIndex values(*view);
  for (size_t i = 0; i < view->event_count(); ++i) {
    const EventRecord event = view->event(i);
    for (char c : event.name) sum += static_cast<unsigned char>(c);
    sum += event.kind.size() + event.stack.size();
    for (char c : event.arguments) sum += static_cast<unsigned char>(c);
    sum += event.results.size() + event.notes.size() + event.forward;
    for (size_t use = 0; use < event.use_count; ++use) {
      const format::UseRow row = view->use_row(i, use);
      for (char c : view->string(row.role)) sum += static_cast<unsigned char>(c);
      sum += view->string(row.path).size() + values.row_of(row.value);
    }
  }
  for (size_t i = 0; i < view->tensor_count(); ++i) {
    const TensorRecord record = view->tensor(i);
    sum += to_string(record.key()).size();
    for (char c : record.group) sum += static_cast<unsigned char>(c);
    if (record.has_bytes) sum += fingerprint({view->blob(i).data(), record.dtype, record.shape, {}}).stats.zeros;
  }
  volatile uint64_t sink = sum;
  (void)sink;
}

}  // namespace
}  // namespace ttap

// No bytes may crash the reader, with their checksums as they are and with their checksums mended.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> storage(size + 64);
  const size_t shift = (64 - reinterpret_cast<uintptr_t>(storage.data()) % 64) % 64;
  const std::span<std::byte> bytes(storage.data() + shift, size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  ttap::read_all(bytes);
  ttap::fuzz::mend_segment(bytes);
  ttap::read_all(bytes);
  return 0;
}
