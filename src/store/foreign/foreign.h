#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/files/mapped_file.h"
#include "ttap/dtype.h"
#include "ttap/key.h"
#include "ttap/tensor_view.h"

// Formats that other programs read and write: .npy, .safetensors, .pt. Each has its own pair of files with
//   Result<ForeignTensors> parse_X(std::span<const std::byte> bytes)   what the bytes say; hostile bytes welcome
//   Result<ForeignTensors> read_X(path)                                the same for a file, which stays mapped
//   Status write_X(path, std::span<const NamedTensor>)                 appears under its name only when whole
namespace ttap {

// A tensor to write; the view may have any strides.
struct NamedTensor {
  std::string key;
  TensorView view;
  bool codes = false;  // a part of a quantized tensor: a format that lacks its dtype keeps the bytes, not the values
};

// A tensor found in a file. Every element its shape and strides reach lies inside `bytes`.
struct ForeignTensor {
  Key key;
  DType dtype = DType::kF32;
  std::optional<DType> true_dtype = {};  // when the file says that the values were widened from it
  std::vector<int64_t> shape = {};
  std::vector<int64_t> strides = {};      // in elements; empty for C order
  std::span<const std::byte> bytes = {};  // begins at element [0, 0, …]
  std::string group =
      {};  // set: it has no bytes, and stands for the values of a quantized tensor (TensorRecord::group)

  TensorView view() const { return {bytes.data(), dtype, shape, strides}; }
};

struct ForeignTensors {
  std::vector<ForeignTensor> tensors;
  std::vector<std::string> notes;  // what the file holds that is not a tensor, one line each
  // What the spans point into.
  std::vector<std::shared_ptr<const MappedFile>> files;
  std::deque<std::vector<std::byte>> owned;
};

// The key that a name found in a file stands for: parsed when it is a key, else taken whole as the name.
Key key_of_foreign_name(std::string_view text);

// What every writer asks of its input: views that pass validate(), keys that are UTF-8 and differ. kInvalidArgument.
Status check_writable(std::span<const NamedTensor> tensors);

}  // namespace ttap
