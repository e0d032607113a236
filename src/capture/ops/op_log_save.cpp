#include <algorithm>
#include <span>
#include <unordered_map>

#include "capture/ops/op_log.h"
#include "capture/place/coverage.h"
#include "capture/place/rank_directory.h"
#include "store/segment/segment_writer.h"
#include "store/sources/run_layout.h"

// An operator log as a run that every command reads.
namespace ttap {
namespace {

constexpr size_t kRowsPerFlush = 32768;
constexpr uint64_t kBlobBytesPerFlush = 64 << 20;

std::string_view or_out(std::string_view role) { return role.empty() ? "out" : role; }

}  // namespace

// One save: the rows go to the segment in the order of the calls.
class OpLog::Saving {
 public:
  // All calls, or those of the graph of a replay with what it made.
  Saving(const OpLog& log, const std::vector<std::string>& stacks, SegmentWriter& writer, const Replay* replay)
      : log_(log), stacks_(stacks), writer_(writer), replay_(replay) {}

  Status run() {
    std::vector<uint32_t> order;
    order.reserve(log_.calls_.size());
    for (size_t i = 0; i < log_.calls_.size(); ++i)
      if (replay_ == nullptr || log_.calls_[i].graph == replay_->graph) order.push_back(static_cast<uint32_t>(i));
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return log_.calls_[a].number < log_.calls_[b].number; });
    find_unchanged(order);
    for (const uint32_t index : order) {
      add(log_.calls_[index]);
      if (writer_.pending_rows() >= kRowsPerFlush || writer_.pending_blob_bytes() >= kBlobBytesPerFlush)
        TTAP_TRY(flush());
    }
    return flush();
  }
  uint64_t tensor_bytes() const { return tensor_bytes_; }

 private:
  static OpKind kind_of(const Call& call) { return static_cast<OpKind>(call.kind); }
  Status flush() {
    const SegmentWriter::Outcome outcome = writer_.flush();
    if (outcome.error) return *outcome.error;
    return {};
  }

  void add(const Call& call) {
    const std::string_view name = log_.texts_.text(call.name);
    const uint32_t number_of_call = ++calls_of_name_[call.name];
    const EventRecord event{.name = name,
                            .kind = to_string(kind_of(call)),
                            .call = number_of_call,
                            .parent = call.parent,
                            .thread = log_.threads_[call.thread],
                            .time_ns = call.start_ns - log_.started_ns_,
                            .stack = stack_of(call)};
    writer_.add_event(call.number, event);
    for (uint32_t i = 0; i < call.tensor_count; ++i)
      if (const Tensor tensor = tensor_of(call, i); !unchanged_.contains(tensor.value))
        add_tensor(call, event, tensor, group_of(call, i));
    add_call(call);
  }

  Tensor tensor_of(const Call& call, uint32_t i) const {
    if (!call.only_shapes) return log_.tensors_[call.first_tensor + i];
    const OpShape& shape = log_.shapes_[call.first_use + i];
    return {shape.place, shape.meta, shape.value, kNoNumber, kNoNumber, Level::kMeta, kNoTap};
  }
  OpLog::Use use_of(const Call& call, uint32_t i) const {
    if (!call.only_shapes) return log_.uses_[call.first_use + i];
    const OpShape& shape = log_.shapes_[call.first_use + i];
    return {shape.place, kNoNumber, shape.value << 1};
  }
  std::string_view group_of(const Call& call, uint32_t i) const {
    if (call.only_shapes) return {};
    const auto found = log_.groups_.find(call.first_tensor + i);
    return found == log_.groups_.end() ? std::string_view{} : log_.texts_.text(found->second);
  }

  // Null when it has none: it was not asked for, or has not come.
  const Fingerprint* fingerprint_of(const Tensor& tensor) const {
    if (replay_ != nullptr && tensor.tap < replay_->fingerprints.size()) {
      const std::optional<Fingerprint>& found = replay_->fingerprints[tensor.tap];
      return found ? &*found : nullptr;
    }
    return tensor.fingerprint != kNoNumber ? &log_.fingerprints_[tensor.fingerprint] : nullptr;
  }

  // A kernel does not say which of its arguments it writes, and on a GPU nobody waits to see: those that are afterwards
  // what they were before hold the same value.
  void find_unchanged(const std::vector<uint32_t>& order) {
    const auto is_kernel = [&](uint32_t index) { return kind_of(log_.calls_[index]) == OpKind::kKernel; };
    if (std::none_of(order.begin(), order.end(), is_kernel)) return;
    std::unordered_map<uint32_t, const Fingerprint*> known;
    for (const uint32_t index : order) {
      const Call& call = log_.calls_[index];
      for (uint32_t i = 0; i < call.tensor_count; ++i) {
        const Tensor tensor = tensor_of(call, i);
        if (const Fingerprint* found = fingerprint_of(tensor)) known.emplace(tensor.value, found);
      }
      if (kind_of(call) != OpKind::kKernel) continue;
      for (uint32_t i = 0; i < call.use_count; ++i) {
        const OpLog::Use before = use_of(call, i);
        for (uint32_t j = i + 1; j < call.use_count; ++j) {
          const OpLog::Use after = use_of(call, j);
          const bool same_place = log_.places_[before.place].path == log_.places_[after.place].path;
          if (!same_place || log_.texts_.text(log_.places_[after.place].role) != "after") continue;
          const uint32_t was = value_of(before);
          const uint32_t is = after.value_written >> 1;
          const auto old_one = known.find(was);
          const auto new_one = known.find(is);
          if (is != was && old_one != known.end() && new_one != known.end() &&
              old_one->second->hash == new_one->second->hash)
            unchanged_.emplace(is, was);
        }
      }
    }
  }
  uint32_t value_of(const OpLog::Use& use) const {
    const auto found = unchanged_.find(use.value_written >> 1);
    return found == unchanged_.end() ? use.value_written >> 1 : found->second;
  }
  // Of a kernel's argument, as it came: whether it left as something else.
  bool is_written(const Call& call, uint32_t number) const {
    const OpLog::Use use = use_of(call, number);
    if (kind_of(call) == OpKind::kKernel)
      for (uint32_t i = 0; i < call.use_count; ++i) {
        const OpLog::Use after = use_of(call, i);
        if (i != number && log_.places_[after.place].path == log_.places_[use.place].path &&
            unchanged_.contains(after.value_written >> 1))
          return false;
      }
    return (use.value_written & 1) != 0;
  }

  std::string_view stack_of(const Call& call) const {
    return call.stack == 0 || call.stack > stacks_.size() ? std::string_view{} : stacks_[call.stack - 1];
  }

  void add_tensor(const Call& call, const EventRecord& event, const Tensor& tensor, std::string_view group) {
    const TensorMeta& meta = log_.metas_[tensor.meta];
    const OpPlace& place = log_.places_[tensor.place];
    TensorRecord record{.name = event.name,
                        .call = event.call,
                        .role = or_out(log_.texts_.text(place.role)),
                        .path = log_.texts_.text(place.path),
                        .event = call.number,
                        .dtype = meta.dtype,
                        .true_dtype = {},
                        .shape = meta.shape,
                        .strides = meta.strides,
                        .device = log_.texts_.text(meta.device),
                        .level = tensor.asked,
                        .has_fingerprint = false,
                        .fingerprint = {},
                        .has_bytes = tensor.bytes != kNoNumber,
                        .byte_count = meta.byte_count,
                        .value = tensor.value};
    if (const Fingerprint* found = fingerprint_of(tensor)) {
      record.has_fingerprint = true;
      record.fingerprint = *found;
    }
    record.group = group;
    // Where its rows were limited the statistics know how many values there were.
    std::vector<int64_t> live_shape;
    const uint64_t values = meta.byte_count / size_of(meta.dtype) * dtype_info(meta.dtype).values;
    if (record.has_fingerprint && record.fingerprint.stats.count < values && !meta.shape.empty()) {
      live_shape = meta.shape;
      live_shape[0] =
          live_shape[0] * static_cast<int64_t>(record.fingerprint.stats.count) / static_cast<int64_t>(values);
      record.shape = live_shape;
      record.byte_count = meta.byte_count / static_cast<uint64_t>(meta.shape[0]) * static_cast<uint64_t>(live_shape[0]);
    }
    // What was asked for did not come: of a captured call, only its replays have it.
    if (!record.has_fingerprint) record.level = Level::kMeta;
    std::span<const std::byte> bytes;
    if (record.has_bytes) bytes = log_.blobs_[tensor.bytes];
    tensor_bytes_ += meta.byte_count;
    writer_.add_tensor(record, event.time_ns, bytes);
  }

  void add_call(const Call& call) {
    uses_.clear();
    for (uint32_t i = 0; i < call.use_count; ++i) {
      const OpLog::Use use = use_of(call, i);
      const OpPlace& place = log_.places_[use.place];
      uses_.push_back({.role = or_out(log_.texts_.text(place.role)),
                       .path = log_.texts_.text(place.path),
                       .tensor = use.tensor,
                       .value = value_of(use),
                       .written = is_written(call, i)});
    }
    writer_.add_call(call.number, {.arguments = log_.texts_.text(call.arguments),
                                   .results = log_.texts_.text(call.results),
                                   .notes = log_.texts_.text(call.notes),
                                   .forward = call.forward,
                                   .duration_ns = call.duration_ns,
                                   .uses = uses_});
  }

  const OpLog& log_;
  const std::vector<std::string>& stacks_;
  SegmentWriter& writer_;
  const Replay* replay_;
  std::unordered_map<uint32_t, uint32_t> unchanged_;  // a kernel's argument: its value afterwards to that before
  std::unordered_map<TextId, uint32_t> calls_of_name_;
  std::vector<ttap::Use> uses_;
  uint64_t tensor_bytes_ = 0;
};

Result<std::filesystem::path> OpLog::save(const std::filesystem::path& directory, const SaveOptions& options) const {
  RecorderOptions place;
  place.directory = directory;
  place.append = options.append;
  place.metadata_json = options.metadata_json;
  if (!options.source_json.empty()) TTAP_TRY(check_json_object(options.source_json, "what the source says of itself"));
  TTAP_ASSIGN(const RankStart start, make_rank_directory(place));
  Report report;
  uint32_t number = start.first_pass;
  const auto path_of = [&] { return start.directory / (pass_stem(number) + ".ttap"); };
  TTAP_TRY(save_pass(path_of(), number, start.metadata_json, options, nullptr, report));
  const std::lock_guard lock(replays_mutex_);
  for (const Replay& replay : replays_) {
    ++number;
    TTAP_TRY(save_pass(path_of(), number, start.metadata_json, options, &replay, report));
  }
  report.graphs = graphs_.counts();
  TTAP_TRY(write_coverage(start.directory, report, options.source_json));
  return start.directory;
}

Status OpLog::save_pass(const std::filesystem::path& path, uint32_t number, const std::string& metadata_json,
                        const SaveOptions& options, const Replay* replay, Report& report) const {
  const uint64_t started = replay != nullptr ? replay->unix_ns : started_unix_ns_;
  TTAP_ASSIGN(SegmentWriter writer, SegmentWriter::create(path, number, started, metadata_json, {}));
  Saving saving(*this, options.stacks, writer, replay);
  TTAP_TRY(saving.run());
  EndRecord end;
  if (replay == nullptr) {
    end.drops.events = options.dropped_events + under_way();
    end.drops.unsupported = lost_fingerprints_;
  }
  report.tensors += writer.tensor_count();
  TTAP_TRY(writer.finish(to_json(end), [] {}));
  ++report.passes;
  report.tensor_bytes += saving.tensor_bytes();
  report.file_bytes += writer.file_bytes();
  report.drops += end.drops;
  return {};
}

}  // namespace ttap
