#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "format/layout.h"

// Making and checking the pieces of layout.h. Nothing here opens a file.
namespace ttap::format {

FileHeader make_file_header(uint32_t pass_number, uint64_t started_unix_ns);
bool is_valid(const FileHeader& header);

// For kBlobs pass an empty payload and its length.
FrameHeader make_frame_header(FrameType type, std::span<const std::byte> payload, uint32_t row_count = 0);
FrameHeader make_blobs_header(uint64_t payload_bytes);
bool is_valid(const FrameHeader& header);

Trailer make_trailer(uint64_t index_offset, uint64_t file_bytes);
bool is_valid(const Trailer& trailer);

// A whole frame, header, payload and padding, at the end of `out`.
void append_frame(std::vector<std::byte>& out, FrameType type, std::span<const std::byte> payload,
                  uint32_t row_count = 0);

}  // namespace ttap::format
