#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/sources/pass_source.h"
#include "ttap/run.h"

namespace ttap {

// A pass that is held in memory, but for its tensors, each of which lies in a .npy file of its own: what the folders of
// graphs are read into.
struct StoredUse {
  std::string role = "in";
  std::string path = {};
  uint32_t tensor = kNoNumber;
  uint32_t record = kNoNumber;
  bool written = false;
};

struct StoredEvent {
  std::string name = {};
  std::string kind = "node";
  uint32_t call = 1;
  uint32_t parent = kNoEvent;
  uint64_t thread = 0;
  uint64_t time_ns = 0;
  std::string stack = {};
  std::string arguments = {};
  std::string results = {};
  std::string notes = {};
  uint32_t forward = kNoEvent;
  uint64_t duration_ns = 0;
  bool returned = false;
  std::vector<StoredUse> uses = {};
};

struct StoredTensor {
  std::string name = {};
  uint32_t call = 1;
  std::string role = "out";
  std::string path = {};
  uint32_t event = kNoEvent;
  DType dtype = DType::kF32;  // of the file
  std::optional<DType> true_dtype = {};
  std::vector<int64_t> shape = {};  // of the file
  std::vector<int64_t> strides = {};
  std::string device = "cpu";
  Level level = Level::kFull;
  std::optional<Fingerprint> fingerprint = {};  // of the tensor in its true dtype
  uint32_t value = 0;
  std::string group = {};           // see TensorRecord
  std::filesystem::path file = {};  // empty: no bytes
  bool codes = false;               // a part of a quantized tensor: what NumPy lacks is there as bytes, not as values
};

struct StoredPass {
  PassInfo info = {};
  std::vector<StoredEvent> events = {};
  std::vector<StoredTensor> tensors = {};
  // Which record an input holds is not said: the first use() asks the bytes. An input that has those of an earlier
  // output is that output.
  bool links_by_bytes = false;
};

// The shape under which write_npy() stores a tensor: packed f4 has twice the last dimension.
std::vector<int64_t> npy_stored_shape(DType dtype, std::span<const int64_t> shape);

// Files are opened when they are read, and checked against the recorded hash where they were not widened.
std::unique_ptr<Pass::Source> make_stored_source(StoredPass pass);

}  // namespace ttap
