#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "store/foreign/foreign.h"
#include "ttap/run.h"

namespace ttap {

// What a Pass reads from; one implementation for segments, one for all foreign formats.
class Pass::Source {
 public:
  virtual ~Source() = default;
  virtual size_t event_count() const = 0;
  virtual EventRecord event(size_t index) const = 0;
  virtual UseRecord use(size_t event, size_t index) const = 0;
  virtual size_t tensor_count() const = 0;
  virtual TensorRecord tensor(size_t index) const = 0;
  virtual std::optional<size_t> find(const Key& key) const = 0;
  virtual Result<TensorView> read(size_t index) const = 0;
  virtual std::optional<uint32_t> missing_from(size_t) const { return std::nullopt; }
  virtual std::optional<uint64_t> file_offset(size_t) const { return std::nullopt; }

  PassInfo info;
};

Result<std::unique_ptr<Pass::Source>> open_segment_source(const std::filesystem::path& path);
std::unique_ptr<Pass::Source> make_foreign_source(ForeignTensors tensors);

// Whether another process holds the segment open for writing.
bool is_being_written(const std::filesystem::path& path);

}  // namespace ttap
