#pragma once

#include "store/foreign/foreign.h"

// .npy: one array a file. A pass in this format is a folder of them with an index.json that says which key
// each file holds.
namespace ttap {

// One array, named "tensor". Besides the errors of parse_npy_header(): kTruncated when the elements are cut
// short, kUnsupported when several arrays follow one another, kCorrupt when something else does. A
// Fortran-order array is handed out by strides, a big-endian one as a copy in little-endian.
Result<ForeignTensors> parse_npy(std::span<const std::byte> bytes);

// One file; the key's name is the file's, without ".npy".
Result<ForeignTensors> read_npy(const std::filesystem::path& path);

// What NumPy lacks (bf16, f8, f4) is widened to float32, exactly; packed f4 doubles the last dimension (a 0-d
// one becomes two elements). Only an index.json says so, not the file.
Status write_npy(const std::filesystem::path& path, const TensorView& view);

// The dtype under which write_npy() stores a tensor.
DType npy_stored_dtype(DType dtype);
inline bool npy_lacks(DType dtype) { return npy_stored_dtype(dtype) != dtype; }
// An unsigned integer as large as an element, for one whose bytes are to be kept.
DType npy_bytes_dtype(DType dtype);

// A folder: by its index.json, or, without one, every *.npy by its name in alphabetical order. Besides the
// errors of read_npy(): kNotFound for a file the index names and the folder lacks, kCorrupt for an index that
// is not ours or does not agree with a file. Files the index does not name become notes.
Result<ForeignTensors> read_npy_folder(const std::filesystem::path& folder);

// The folder must not exist, or be empty; it appears under its name only when it is whole. `groups` says which tensors
// are the parts of quantized ones (group_note.h); may be empty.
Status write_npy_folder(const std::filesystem::path& folder, std::span<const NamedTensor> tensors,
                        std::string_view groups = {});

}  // namespace ttap
