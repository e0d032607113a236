#pragma once

#include "store/foreign/foreign.h"

// .pt: what torch.save writes, a zip archive with a pickle that describes the tensors and one entry per
// storage.
namespace ttap {

struct PtOptions {
  // Read all bytes once and compare the archive's CRC-32 of every entry (about a second per gigabyte).
  // Without it only the pickle is verified, and tensors are not read before they are used.
  bool verify_tensors = true;
};

// A pickle is a program; this reader knows its data and refuses the rest, so opening a file never runs
// anything. It builds tensors, parameters, dictionaries, lists, tuples, sets, numbers, text, bytes, dtypes,
// sizes and devices. The keys of the outermost dictionary become names, every further level a step of the
// path; a bare tensor is called "tensor". What is not a tensor becomes a note. Views are handed out by
// strides over the storage they share; a stride of zero can make a small file describe a huge tensor, so copy
// in pieces. Fails with
//   kForbidden      the pickle wants to call or build something else: the message names it
//   kVersion        written before PyTorch 1.6 (not a zip archive)     kNotThisFormat  neither of the two
//   kTruncated      the archive is cut short                           kCorrupt        a checksum or the
//   structure kUnsupported    big-endian or compressed files, quantized, sparse or lazily conjugated tensors,
//                   pickle protocols 0 and 1, two tensors whose keys would be the same ({1: …, "1": …})
//   kTooLarge       nested deeper than 64 levels, or shared references that unfold beyond what the file
//   justifies
Result<ForeignTensors> parse_pt(std::span<const std::byte> bytes, const PtOptions& options = {});
Result<ForeignTensors> read_pt(const std::filesystem::path& path, const PtOptions& options = {});

// A dictionary {key: tensor} in order, which torch.load(weights_only=True) reads, mapped or not. Each tensor
// is written as its logical elements, never with the rest of its storage; contiguous tensors over the same
// memory share one. `groups` says which of them are the parts of quantized tensors (group_note.h); may be empty.
Status write_pt(const std::filesystem::path& path, std::span<const NamedTensor> tensors, std::string_view groups = {});

}  // namespace ttap
