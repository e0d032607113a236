#include "ttap/capi.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>

#include "ttap/recorder.h"
#include "ttap/version.h"

struct ttap_recorder {
  std::unique_ptr<ttap::Recorder> recorder;
};

namespace {

thread_local std::string last_error;

constexpr size_t kSmallestOptions = offsetof(ttap_options, level_rules);  // of the first release

int failed(std::string what) noexcept {
  last_error = std::move(what);
  return -1;
}

// The one place where what C cannot see, a Status or an exception, becomes a number.
template <class F>
int guarded(F&& body) noexcept {
  try {
    const ttap::Status status = body();
    return status.ok() ? 0 : failed(status.error().describe());
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

// By their numbers here.
constexpr ttap::Level kLevels[] = {ttap::Level::kMeta, ttap::Level::kFingerprint, ttap::Level::kFull,
                                   ttap::Level::kSketch};
bool is_level(int32_t level) { return level >= 0 && static_cast<size_t>(level) < std::size(kLevels); }

// The options of a program that was built against this header, an older or a newer one.
ttap::Result<ttap_options> known_part(const ttap_options* given) {
  const size_t size = given == nullptr ? 0 : given->struct_size;
  if (size < kSmallestOptions)
    return ttap::Error{.code = ttap::ErrorCode::kInvalidArgument,
                       .message = "ttap_options that were not initialised",
                       .hint = "call ttap_options_init() first"};
  ttap_options options;
  ttap_options_init(&options);
  std::memcpy(&options, given, std::min(size, sizeof options));
  const auto* bytes = reinterpret_cast<const char*>(given);
  if (size > sizeof options && std::any_of(bytes + sizeof options, bytes + size, [](char byte) { return byte != 0; }))
    return ttap::Error{.code = ttap::ErrorCode::kInvalidArgument,
                       .message = "ttap_options that say more than this library knows",
                       .hint = "update the library: the program was built against a newer ttap/capi.h"};
  return options;
}

ttap::RecorderOptions options_of(const ttap_options& from) {
  ttap::RecorderOptions options;
  if (from.directory != nullptr) options.directory = from.directory;
  if (from.rank >= 0) options.rank = static_cast<uint32_t>(from.rank);
  if (from.filter != nullptr) options.filter.emplace(from.filter, from.filter + from.filter_count);
  options.level = kLevels[from.level];
  if (from.staging_bytes != 0) options.staging_bytes = from.staging_bytes;
  if (from.drop_when_full != 0) options.when_full = ttap::WhenFull::kDrop;
  options.quota_bytes = from.quota_bytes;
  if (from.metadata_json != nullptr) options.metadata_json = from.metadata_json;
  for (size_t i = 0; i < from.level_rule_count; ++i)
    options.level_rules.push_back({from.level_rules[i].pattern, kLevels[from.level_rules[i].level]});
  return options;
}

int capture(ttap_recorder* recorder, const char* name, const ttap_tensor* tensor, const char* role, const char* path,
            const std::optional<ttap::OnGpu>& gpu) {
  if (recorder == nullptr) return 0;
  return guarded([&]() -> ttap::Status {
    if (name == nullptr || tensor == nullptr || tensor->ndim < 0 || (tensor->ndim > 0 && tensor->shape == nullptr))
      return ttap::Error{ttap::ErrorCode::kInvalidArgument, "ttap_capture: a name, a tensor and its shape are needed"};
    const auto ndim = static_cast<size_t>(tensor->ndim);
    // A number beyond eight bits must not turn into another dtype; 0 is none, which the recorder refuses and counts.
    const bool known = tensor->dtype >= TTAP_BOOL && tensor->dtype <= TTAP_F4_E2M1FN_X2;
    const auto dtype = static_cast<ttap::DType>(known ? tensor->dtype : 0);
    ttap::TensorView view{tensor->data, dtype, {tensor->shape, ndim}, {}};
    if (tensor->strides != nullptr) view.strides = {tensor->strides, ndim};
    ttap::Place place;
    if (role != nullptr) place.role = role;
    if (path != nullptr) place.path = path;
    const std::string device = gpu ? "cuda:" + std::to_string(gpu->device) : "cpu";
    place.device = device;
    place.gpu = gpu;
    return recorder->recorder->try_capture(name, view, place);
  });
}

}  // namespace

extern "C" {

const char* ttap_version(void) { return ttap::version(); }
const char* ttap_last_error(void) { return last_error.c_str(); }

// Writes no more than the caller has room for, whichever header it was built against.
void ttap_options_init_sized(ttap_options* options, size_t struct_size) {
  ttap_options plain = {};
  plain.struct_size = struct_size;
  plain.rank = -1;
  plain.level = TTAP_LEVEL_FULL;
  std::memset(static_cast<void*>(options), 0, struct_size);
  std::memcpy(options, &plain, std::min(struct_size, sizeof plain));
}

int32_t ttap_level_from_name(const char* name) {
  const auto level = name != nullptr ? ttap::level_from_name(name) : std::nullopt;
  if (!level) return -1;
  return static_cast<int32_t>(std::find(std::begin(kLevels), std::end(kLevels), *level) - std::begin(kLevels));
}

int ttap_recorder_create(const ttap_options* options, ttap_recorder** recorder) {
  if (recorder == nullptr) return failed("ttap_recorder_create: no place for the recorder");
  *recorder = nullptr;
  return guarded([&]() -> ttap::Status {
    TTAP_ASSIGN(const ttap_options known, known_part(options));
    if (known.rank > UINT32_MAX)
      return ttap::Error{ttap::ErrorCode::kInvalidArgument, "ttap_options: rank does not fit 32 bits"};
    const auto is_rule = [](const ttap_level_rule& rule) { return rule.pattern != nullptr && is_level(rule.level); };
    if (!is_level(known.level) || !std::all_of(known.level_rules, known.level_rules + known.level_rule_count, is_rule))
      return ttap::Error{ttap::ErrorCode::kInvalidArgument, "ttap_options: unknown level, or a rule without a pattern"};
    TTAP_ASSIGN(auto merged, ttap::RecorderOptions::from_environment(options_of(known)));
    if (merged.directory.empty()) return {};
    TTAP_ASSIGN(auto made, ttap::Recorder::create(merged));
    *recorder = new ttap_recorder{std::move(made)};
    return {};
  });
}

uint32_t ttap_begin_pass(ttap_recorder* recorder) {
  uint32_t number = 0;
  (void)guarded([&]() -> ttap::Status {
    if (recorder != nullptr) number = recorder->recorder->begin_pass();
    return {};
  });
  return number;
}

void ttap_end_pass(ttap_recorder* recorder, int aborted) {
  (void)guarded([&]() -> ttap::Status {
    if (recorder != nullptr)
      recorder->recorder->end_pass(aborted != 0 ? ttap::Ending::kAborted : ttap::Ending::kComplete);
    return {};
  });
}

int ttap_wants(ttap_recorder* recorder, const char* name) {
  bool wanted = false;
  (void)guarded([&]() -> ttap::Status {
    wanted = recorder != nullptr && name != nullptr && recorder->recorder->wants(name);
    return {};
  });
  return wanted ? 1 : 0;
}

int ttap_capture(ttap_recorder* recorder, const char* name, const ttap_tensor* tensor, const char* role,
                 const char* path) {
  return capture(recorder, name, tensor, role, path, {});
}

int ttap_capture_gpu(ttap_recorder* recorder, const char* name, const ttap_tensor* tensor, const char* role,
                     const char* path, int device, void* stream) {
  return capture(recorder, name, tensor, role, path, ttap::OnGpu{.device = device, .stream = stream});
}

int ttap_flush(ttap_recorder* recorder) {
  if (recorder == nullptr) return 0;
  return guarded([&] { return recorder->recorder->flush(); });
}

int ttap_recorder_close(ttap_recorder* recorder) {
  if (recorder == nullptr) return 0;
  const int result = guarded([&] { return recorder->recorder->close(); });
  delete recorder;
  return result;
}

}  // extern "C"
