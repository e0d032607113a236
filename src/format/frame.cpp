#include "format/frame.h"

#include <cstring>

#include "core/crc32c.h"
#include "ttap/result.h"

namespace ttap::format {
namespace {

// The three fixed structures end in a CRC of everything before it.
template <class T>
uint32_t crc_before_last_word(const T& record) {
  return crc32c({reinterpret_cast<const std::byte*>(&record), sizeof record - sizeof(uint32_t)});
}

}  // namespace

FileHeader make_file_header(uint32_t pass_number, uint64_t started_unix_ns) {
  FileHeader header{};
  std::memcpy(header.magic, kFileMagic, sizeof kFileMagic);
  header.version_major = kVersionMajor;
  header.version_minor = kVersionMinor;
  header.pass_number = pass_number;
  header.started_unix_ns = started_unix_ns;
  header.crc = crc_before_last_word(header);
  return header;
}

bool is_valid(const FileHeader& header) {
  return std::memcmp(header.magic, kFileMagic, sizeof kFileMagic) == 0 && header.crc == crc_before_last_word(header);
}

FrameHeader make_frame_header(FrameType type, std::span<const std::byte> payload, uint32_t row_count) {
  TTAP_CHECK(type != FrameType::kBlobs);
  FrameHeader header{};
  header.magic = kFrameMagic;
  header.type = static_cast<uint16_t>(type);
  header.payload_bytes = payload.size();
  header.payload_crc = crc32c(payload);
  header.row_count = row_count;
  header.header_crc = crc_before_last_word(header);
  return header;
}

FrameHeader make_blobs_header(uint64_t payload_bytes) {
  FrameHeader header{};
  header.magic = kFrameMagic;
  header.type = static_cast<uint16_t>(FrameType::kBlobs);
  header.payload_bytes = payload_bytes;
  header.header_crc = crc_before_last_word(header);
  return header;
}

bool is_valid(const FrameHeader& header) {
  return header.magic == kFrameMagic && header.header_crc == crc_before_last_word(header);
}

Trailer make_trailer(uint64_t index_offset, uint64_t file_bytes) {
  Trailer trailer{};
  std::memcpy(trailer.magic, kTrailerMagic, sizeof kTrailerMagic);
  trailer.index_offset = index_offset;
  trailer.file_bytes = file_bytes;
  trailer.crc = crc_before_last_word(trailer);
  return trailer;
}

bool is_valid(const Trailer& trailer) {
  return std::memcmp(trailer.magic, kTrailerMagic, sizeof kTrailerMagic) == 0 &&
         trailer.crc == crc_before_last_word(trailer);
}

void append_frame(std::vector<std::byte>& out, FrameType type, std::span<const std::byte> payload, uint32_t row_count) {
  const FrameHeader header = make_frame_header(type, payload, row_count);
  const auto header_bytes = std::as_bytes(std::span(&header, 1));
  out.insert(out.end(), header_bytes.begin(), header_bytes.end());
  out.insert(out.end(), payload.begin(), payload.end());
  out.resize(out.size() + (align_up(payload.size()) - payload.size()));
}

}  // namespace ttap::format
