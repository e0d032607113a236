#pragma once

#include <deque>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "store/segment/segment_writer.h"
#include "store/sources/run_layout.h"
#include "ttap/fingerprint.h"
#include "ttap/tensor_view.h"

// Runs with known contents, written without a recorder.
namespace ttap::test {

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, double>) return DType::kF64;
  if constexpr (std::is_same_v<T, int64_t>) return DType::kI64;
  if constexpr (std::is_same_v<T, int32_t>) return DType::kI32;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::kU8;
}

// One pass on its way into a rank's folder, which is made if missing. Every failure aborts: it is the test's.
class SamplePass {
 public:
  SamplePass(const std::filesystem::path& folder, uint32_t number, std::string_view metadata_json = "{}")
      : path_(folder / (pass_stem(number) + ".ttap")), writer_(create(path_, number, metadata_json)) {}

  uint32_t event(std::string_view name, uint32_t parent = kNoEvent, uint32_t call = 1, std::string_view kind = "module",
                 std::string_view stack = {}) {
    writer_.add_event(events_, {.name = name,
                                .kind = kind,
                                .call = call,
                                .parent = parent,
                                .thread = 4711,
                                .time_ns = 1'000'000 + 1000 * uint64_t{events_},
                                .stack = stack});
    return events_++;
  }

  struct Options {
    std::string_view role = "out";
    std::string_view path = {};
    uint32_t call = 1;
    uint32_t event = kNoEvent;
    Level level = Level::kFull;
    std::vector<int64_t> strides = {};
    std::string_view device = "cpu";
    bool keep_bytes = true;  // false: as if the quota had taken them
    uint32_t value = 0;
    std::string_view group = {};
  };

  void tensor(std::string_view name, DType dtype, std::vector<int64_t> shape, std::vector<std::byte> bytes,
              const Options& options) {
    const std::vector<std::byte>& kept = bytes_.emplace_back(std::move(bytes));
    TensorRecord record;
    record.name = name;
    record.call = options.call;
    record.role = options.role;
    record.path = options.path;
    record.event = options.event;
    record.dtype = dtype;
    record.shape = shape;
    record.strides = options.strides;
    record.device = options.device;
    record.level = options.level;
    record.byte_count = kept.size();
    record.value = options.value;
    record.group = options.group;
    record.has_fingerprint = options.level >= Level::kFingerprint;
    record.has_bytes = options.level == Level::kFull && options.keep_bytes;
    if (record.has_fingerprint)
      record.fingerprint = fingerprint({kept.data(), dtype, shape, {}}, {.sketch = keeps_sketch(options.level)});
    writer_.add_tensor(record, 0, record.has_bytes ? std::span<const std::byte>(kept) : std::span<const std::byte>{});
  }
  void tensor(std::string_view name, DType dtype, std::vector<int64_t> shape, std::vector<std::byte> bytes) {
    tensor(name, dtype, std::move(shape), std::move(bytes), Options{});
  }
  template <class T>
  void tensor(std::string_view name, std::vector<int64_t> shape, const std::vector<T>& values, const Options& options) {
    const auto bytes = std::as_bytes(std::span(values));
    tensor(name, dtype_of<T>(), std::move(shape), {bytes.begin(), bytes.end()}, options);
  }
  template <class T>
  void tensor(std::string_view name, std::vector<int64_t> shape, const std::vector<T>& values) {
    tensor(name, std::move(shape), values, Options{});
  }

  void call(uint32_t event, const SegmentWriter::Call& call) { TTAP_CHECK(writer_.add_call(event, call)); }

  void flush() {
    TTAP_CHECK(!writer_.flush().error);
    bytes_.clear();
  }

  std::filesystem::path finish(const EndRecord& end = {}) {
    flush();
    TTAP_CHECK(writer_.finish(to_json(end), {}).ok());
    return path_;
  }

  // As a killed process leaves it: no end, and a tail of `torn_bytes` that mean nothing. The lock goes with *this.
  std::filesystem::path abandon(size_t torn_bytes) {
    flush();
    std::filesystem::path left = path_;
    left += kIncompleteSuffix;
    std::ofstream(left, std::ios::app | std::ios::binary) << std::string(torn_bytes, '?');
    return left;
  }

 private:
  static SegmentWriter create(const std::filesystem::path& path, uint32_t number, std::string_view metadata_json) {
    std::filesystem::create_directories(path.parent_path());
    auto writer = SegmentWriter::create(path, number, 1'700'000'000'000'000'000, metadata_json, {});
    TTAP_CHECK(writer.ok());
    return std::move(writer).value();
  }

  std::filesystem::path path_;
  SegmentWriter writer_;
  uint32_t events_ = 0;
  std::deque<std::vector<std::byte>> bytes_;
};

}  // namespace ttap::test
