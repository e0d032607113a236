#include "ttap/capi.h"

#include <exception>
#include <string>

#include "ttap/recorder.h"
#include "ttap/version.h"

struct ttap_recorder {
  std::unique_ptr<ttap::Recorder> recorder;
};

namespace {

thread_local std::string last_error;

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

ttap::RecorderOptions options_of(const ttap_options& from) {
  ttap::RecorderOptions options;
  if (from.directory != nullptr) options.directory = from.directory;
  if (from.rank >= 0) options.rank = static_cast<uint32_t>(from.rank);
  if (from.filter != nullptr) options.filter.emplace(from.filter, from.filter + from.filter_count);
  options.level = static_cast<ttap::Level>(from.level);
  if (from.staging_bytes != 0) options.staging_bytes = from.staging_bytes;
  if (from.drop_when_full != 0) options.when_full = ttap::WhenFull::kDrop;
  options.quota_bytes = from.quota_bytes;
  if (from.metadata_json != nullptr) options.metadata_json = from.metadata_json;
  return options;
}

}  // namespace

extern "C" {

const char* ttap_version(void) { return ttap::version(); }
const char* ttap_last_error(void) { return last_error.c_str(); }

void ttap_options_init(ttap_options* options) {
  *options = {};
  options->struct_size = sizeof *options;
  options->rank = -1;
  options->level = TTAP_LEVEL_FULL;
}

int ttap_recorder_create(const ttap_options* options, ttap_recorder** recorder) {
  if (recorder == nullptr) return failed("ttap_recorder_create: no place for the recorder");
  *recorder = nullptr;
  return guarded([&]() -> ttap::Status {
    if (options == nullptr || options->struct_size != sizeof *options)
      return ttap::Error{.code = ttap::ErrorCode::kInvalidArgument,
                         .message = "ttap_options of another size than this library's",
                         .hint = "call ttap_options_init() first, and build against the installed header"};
    if (options->rank > UINT32_MAX)
      return ttap::Error{ttap::ErrorCode::kInvalidArgument, "ttap_options: rank does not fit 32 bits"};
    if (options->level < TTAP_LEVEL_META || options->level > TTAP_LEVEL_FULL)
      return ttap::Error{ttap::ErrorCode::kInvalidArgument, "ttap_options: unknown level"};
    TTAP_ASSIGN(auto merged, ttap::RecorderOptions::from_environment(options_of(*options)));
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
    return recorder->recorder->try_capture(name, view, place);
  });
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
