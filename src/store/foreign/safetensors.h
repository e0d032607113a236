#pragma once

#include "store/foreign/foreign.h"

// .safetensors: a JSON header and the bytes of every tensor, C order. All our dtypes but c128 have a name
// there; what has none is stored as a type of the same bytes, and its true dtype and shape stand in the
// entry `ttap.dtype.<tensor>` of `__metadata__`, which this reader takes back:
//   c128      F64 with a last dimension of 2
//   0-d f4    U8 (the format counts half bytes, and a 0-d tensor has one number)
// The entry `ttap.groups` describes quantized tensors, whose parts are tensors of the file; see group_note.h.
namespace ttap {

// Tensors in the order of the header. Enforces the format's own rules (no holes, no overlaps, no duplicates,
// sizes that agree, a header of at most 100 MB). Fails with
//   kNotThisFormat  no header that starts with '{'     kTooLarge     a header over the limit, a shape over
//   2^63 bytes kTruncated      the file ends too early            kCorrupt      any rule broken, at the
//   offset where it shows kUnsupported    a dtype we lack (F6_…), or half bytes that do not fill whole ones
// Foreign metadata becomes notes.
Result<ForeignTensors> parse_safetensors(std::span<const std::byte> bytes);
Result<ForeignTensors> read_safetensors(const std::filesystem::path& path);

// The data begins at a multiple of 64 bytes and every tensor at a multiple of its element size, so that the
// file can be used where it is mapped. `metadata` is written beside ours.
Status write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                         std::span<const std::pair<std::string, std::string>> metadata = {});

}  // namespace ttap
