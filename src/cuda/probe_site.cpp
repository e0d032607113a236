#include "cuda/probe_site.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "core/logical_copy.h"
#include "cuda/kept_by_graphs.h"

namespace ttap::cuda {
namespace {

Error too_small(uint64_t bytes, uint64_t room) {
  return {.code = ErrorCode::kInvalidArgument,
          .message = fmt::format("a tensor of {} bytes does not fit a probe made for {}", bytes, room)};
}

void keep_once(std::vector<std::shared_ptr<void>>& kept, std::shared_ptr<void> object) {
  if (object && std::find(kept.begin(), kept.end(), object) == kept.end()) kept.push_back(std::move(object));
}

}  // namespace

Result<std::shared_ptr<ExpectedTensor>> expected_on_device(const TensorView& tensor, int device) {
  TTAP_TRY(validate(tensor));
  const OnDevice on(device);
  const WhileCapturing allocating;
  auto expected = std::make_shared<ExpectedTensor>();
  expected->bytes = byte_count(tensor);
  const uint64_t room = std::max<uint64_t>(expected->bytes, 16);
  TTAP_ASSIGN(expected->memory, device_memory(device, room));
  TTAP_ASSIGN(const PinnedMemory staged, pinned_memory(room));
  const LogicalCopy elements(tensor);
  elements.copy(0, elements.elements(), staged.get());
  // On a stream of our own: the caller's may be under capture.
  TTAP_ASSIGN(const Stream stream, make_stream());
  Status copied = copy(expected->memory.get(), staged.get(), room, stream);
  if (copied.ok()) copied = synchronize(stream);
  destroy_stream(stream);
  TTAP_TRY(std::move(copied));
  return expected;
}

Result<std::shared_ptr<ProbeSite>> ProbeSite::create(const Options& options) {
  const OnDevice on(options.device);
  const WhileCapturing allocating;
  std::shared_ptr<ProbeSite> site(new ProbeSite);
  site->options_ = options;
  site->taken_bytes_ =
      options.keep_bytes ? options.bytes : std::min(options.bytes, options.head_elements * options.element_bytes);
  TTAP_ASSIGN(site->result_, zeroed_device_memory(options.device, sizeof(DeviceResult)));
  if (site->taken_bytes_ > 0) {
    TTAP_ASSIGN(site->taken_, device_memory(options.device, site->taken_bytes_));
  }
  if (options.compares) {
    TTAP_ASSIGN(site->compare_state_, zeroed_device_memory(options.device, sizeof(CompareState)));
    TTAP_ASSIGN(site->report_memory_, pinned_memory(sizeof(CompareReport)));
    site->report_ = new (site->report_memory_.get()) CompareReport;
  }
  const ReplayRing::Source sources[] = {{site->result_.get(), sizeof(DeviceResult)},
                                        {site->taken_.get(), site->taken_bytes_}};
  TTAP_ASSIGN(site->ring_, ReplayRing::create(sources, {.device = options.device,
                                                        .capacity = options.capacity,
                                                        .wait_when_full = options.wait_when_full}));
  return site;
}

Status ProbeSite::enqueue(const TensorView& tensor, const Rows& rows, std::shared_ptr<void> rows_owner,
                          const Expectation* expectation, Stream stream) {
  TTAP_TRY(validate(tensor));
  const uint64_t bytes = byte_count(tensor);
  if (bytes > options_.bytes) return too_small(bytes, options_.bytes);
  if (expectation != nullptr && (report_ == nullptr || expectation->tensor->bytes != bytes))
    return Error{.code = ErrorCode::kInvalidArgument, .message = "the expected tensor is of another size"};
  const OnDevice on(options_.device);
  keep_once(kept_, std::move(rows_owner));
  if (expectation != nullptr) keep_once(kept_, expectation->tensor);
  if (scratch_ == nullptr) {
    TTAP_ASSIGN(scratch_, scratch_for(options_.device, stream));
  }
  // First of all: a graph whose capture goes wrong below still has nodes that write to this.
  if (capture_number(stream) != 0) TTAP_TRY(keep_until_graph_is_gone(stream, shared_from_this()));

  const FingerprintJob job{.view = tensor,
                           .rows = rows,
                           .copy_to = options_.keep_bytes && bytes > 0 ? taken_.get() : nullptr,
                           .result = reinterpret_cast<DeviceResult*>(result_.get()),
                           .is_watched = false,
                           .is_sketched = false};
  TTAP_TRY(launch_fingerprints({&job, 1}, scratch_->memory.get(), stream));
  if (!options_.keep_bytes && taken_bytes_ > 0) {
    const uint64_t elements = std::min(
        {element_count(tensor), options_.head_elements, taken_bytes_ / static_cast<uint64_t>(size_of(tensor.dtype))});
    TTAP_TRY(launch_head({.view = tensor, .elements = elements, .to = taken_.get()}, stream));
  }
  if (expectation != nullptr)
    TTAP_TRY(launch_compare({.view = tensor,
                             .rows = rows,
                             .expected = expectation->tensor->memory.get(),
                             .tolerance = expectation->tolerance,
                             .state = reinterpret_cast<CompareState*>(compare_state_.get()),
                             .report = report_},
                            stream));
  return ring_->publish(stream);
}

std::optional<ProbeSite::Arrived> ProbeSite::next() {
  const auto entry = ring_->next();
  if (!entry) return std::nullopt;
  // It may be overwritten while it is read: nothing in it is to be trusted before release() has said so.
  DeviceResult result;
  std::copy_n(entry->payload.data() + ring_->offset(0), sizeof result, reinterpret_cast<std::byte*>(&result));
  const uint64_t bytes = std::min(result.bytes, options_.bytes);
  return Arrived{.entry = *entry,
                 .fingerprint = to_fingerprint(result),
                 .bytes = bytes,
                 .taken = entry->payload.subspan(ring_->offset(1), std::min(bytes, taken_bytes_))};
}

bool ProbeSite::release(const Arrived& arrived) { return ring_->release(arrived.entry); }

uint64_t ProbeSite::published() const { return ring_->published(); }
uint64_t ProbeSite::overwritten() const { return ring_->overwritten(); }
uint64_t ProbeSite::skipped() const { return ring_->skipped(); }
void ProbeSite::close() { ring_->close(); }

uint64_t probe_capture_number(Stream stream) { return capture_number(stream); }
std::string probe_device_reason() {
  if (available()) return {};
  const std::string reason = unavailable_reason();
  return reason.empty() ? "no GPU" : reason;
}

}  // namespace ttap::cuda
