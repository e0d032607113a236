#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ttap/result.h"

namespace ttap {

struct ZipEntry {
  std::string_view name;
  std::span<const std::byte> data;
  uint64_t offset = 0;  // of the data in the archive
  uint32_t crc = 0;
};

// A zip archive of stored (not compressed) entries, as torch.save writes it; zip64 too. Views point into the
// bytes it was opened on. Every entry lies inside the archive, apart from the others, and is described alike by
// the central directory and by its own header.
class ZipArchive {
 public:
  // Fails with kNotThisFormat, kTruncated (no end record), kUnsupported (compressed, encrypted, several
  // disks) and kCorrupt (anything that contradicts itself).
  static Result<ZipArchive> open(std::span<const std::byte> bytes);

  std::span<const ZipEntry> entries() const { return entries_; }
  const ZipEntry* find(std::string_view name) const;  // nullptr when there is none

  // False when every checksum is zero: the writer left them out.
  bool has_checksums() const { return has_checksums_; }
  // Reads the whole entry; kCorrupt when its CRC-32 differs. Always good when there are no checksums.
  Status verify(const ZipEntry& entry) const;

 private:
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string_view, size_t> by_name_;
  bool has_checksums_ = true;
};

}  // namespace ttap
