#include "store/foreign/zip_writer.h"

#include <zlib.h>

#include "store/foreign/zip_format.h"

namespace ttap {
namespace {

using zip::append;

constexpr size_t kEntryAlignment = 64;
constexpr uint16_t kPlainVersion = 20, k64Version = 45;

bool is_large(uint64_t value) { return value >= zip::kSee64; }
uint32_t low_or_see64(uint64_t value) { return is_large(value) ? zip::kSee64 : static_cast<uint32_t>(value); }

// The zip64 extra field; empty when neither number needs it. torch.save puts the same one into both headers,
// and torch can be asked to compute where storages lie instead of looking, so byte counts must agree.
std::string extra64(uint64_t size, uint64_t header) {
  std::string fields;
  if (is_large(size)) {
    append<uint64_t>(fields, size);
    append<uint64_t>(fields, size);
  }
  if (is_large(header)) append<uint64_t>(fields, header);
  if (fields.empty()) return {};
  std::string extra;
  append<uint16_t>(extra, zip::kExtra64);
  append<uint16_t>(extra, static_cast<uint16_t>(fields.size()));
  return extra + fields;
}

// An empty entry has nothing to follow.
uint16_t flags_of(uint64_t size) { return size == 0 ? zip::kUtf8Name : zip::kUtf8Name | zip::kHasDescriptor; }

}  // namespace

Status ZipWriter::begin_entry(std::string_view name, uint64_t size) {
  TTAP_CHECK(name.size() < zip::kSee64Short);
  Entry& entry = entries_.emplace_back(Entry{.name = std::string(name), .header = file_.position(), .size = size});
  std::string extra = extra64(size, entry.header);
  const bool large = !extra.empty();
  // "FB", the padding that torch.save puts in.
  const uint64_t unpadded = entry.header + zip::kLocalSize + name.size() + extra.size() + 4;
  const auto padding = static_cast<uint16_t>((kEntryAlignment - unpadded % kEntryAlignment) % kEntryAlignment);
  extra += "FB";
  append<uint16_t>(extra, padding);
  extra.append(padding, 'Z');

  std::string header;
  append<uint32_t>(header, zip::kLocalMark);
  append<uint16_t>(header, large ? k64Version : kPlainVersion);
  append<uint16_t>(header, flags_of(size));
  header.append(10, '\0');  // method 0, no time, the CRC follows the data
  append<uint32_t>(header, is_large(size) ? zip::kSee64 : 0);
  append<uint32_t>(header, is_large(size) ? zip::kSee64 : 0);
  append<uint16_t>(header, static_cast<uint16_t>(name.size()));
  append<uint16_t>(header, static_cast<uint16_t>(extra.size()));
  written_ = 0;
  return write_text(header + std::string(name) + extra);
}

Status ZipWriter::write(std::span<const std::byte> bytes) {
  Entry& entry = entries_.back();
  written_ += bytes.size();
  entry.crc = static_cast<uint32_t>(::crc32_z(entry.crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  return file_.write(bytes);
}

Status ZipWriter::end_entry() {
  const Entry& entry = entries_.back();
  TTAP_CHECK(written_ == entry.size);
  if (entry.size == 0) return {};
  const bool large = is_large(entry.size) || is_large(entry.header);
  std::string descriptor;
  append<uint32_t>(descriptor, zip::kDescriptorMark);
  append<uint32_t>(descriptor, entry.crc);
  for (int i = 0; i < 2; ++i) {
    if (large) {
      append<uint64_t>(descriptor, entry.size);
    } else {
      append<uint32_t>(descriptor, static_cast<uint32_t>(entry.size));
    }
  }
  return write_text(descriptor);
}

Status ZipWriter::add(std::string_view name, std::string_view content) {
  TTAP_TRY(begin_entry(name, content.size()));
  TTAP_TRY(write(std::as_bytes(std::span(content))));
  return end_entry();
}

Status ZipWriter::finish() {
  const uint64_t begin = file_.position();
  for (const Entry& entry : entries_) {
    const std::string extra = extra64(entry.size, entry.header);
    const uint16_t version = extra.empty() ? kPlainVersion : k64Version;
    std::string record;
    append<uint32_t>(record, zip::kCentralMark);
    append<uint16_t>(record, version);
    append<uint16_t>(record, version);
    append<uint16_t>(record, flags_of(entry.size));
    record.append(6, '\0');  // method 0, no time
    append<uint32_t>(record, entry.crc);
    append<uint32_t>(record, low_or_see64(entry.size));
    append<uint32_t>(record, low_or_see64(entry.size));
    append<uint16_t>(record, static_cast<uint16_t>(entry.name.size()));
    append<uint16_t>(record, static_cast<uint16_t>(extra.size()));
    record.append(10, '\0');  // no comment, disk 0, no attributes
    append<uint32_t>(record, low_or_see64(entry.header));
    record += entry.name;
    record += extra;
    TTAP_TRY(write_text(record));
  }
  const uint64_t end = file_.position();
  const uint64_t size = end - begin, count = entries_.size();
  std::string tail;
  if (is_large(begin) || is_large(size) || count >= zip::kSee64Short) {
    append<uint32_t>(tail, zip::kEnd64Mark);
    append<uint64_t>(tail, zip::kEnd64Size - 12);
    append<uint16_t>(tail, k64Version);
    append<uint16_t>(tail, k64Version);
    append<uint64_t>(tail, 0);  // this disk, the directory's disk
    append<uint64_t>(tail, count);
    append<uint64_t>(tail, count);
    append<uint64_t>(tail, size);
    append<uint64_t>(tail, begin);
    append<uint32_t>(tail, zip::kLocator64Mark);
    append<uint32_t>(tail, 0);
    append<uint64_t>(tail, end);
    append<uint32_t>(tail, 1);
  }
  append<uint32_t>(tail, zip::kEndMark);
  append<uint32_t>(tail, 0);
  const auto short_count = static_cast<uint16_t>(count >= zip::kSee64Short ? zip::kSee64Short : count);
  append<uint16_t>(tail, short_count);
  append<uint16_t>(tail, short_count);
  append<uint32_t>(tail, low_or_see64(size));
  append<uint32_t>(tail, low_or_see64(begin));
  append<uint16_t>(tail, 0);
  TTAP_TRY(write_text(tail));
  return file_.commit();
}

}  // namespace ttap
