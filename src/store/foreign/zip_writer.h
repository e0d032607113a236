#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/files/posix_file.h"

namespace ttap {

// Writes a zip archive of stored entries front to back; zip64 where sizes ask for it. The data of each entry
// begins at a multiple of 64 bytes, so that a reader can map it. Laid out as torch.save does.
class ZipWriter {
 public:
  explicit ZipWriter(OutputFile file) : file_(std::move(file)) {}

  // One entry: begin, exactly `size` bytes in any number of writes, end.
  Status begin_entry(std::string_view name, uint64_t size);
  Status write(std::span<const std::byte> bytes);
  Status end_entry();

  Status add(std::string_view name, std::string_view content);

  // The directory; the file appears under its name.
  Status finish();

 private:
  struct Entry {
    std::string name;
    uint64_t header = 0;
    uint64_t size = 0;
    uint32_t crc = 0;
  };
  Status write_text(std::string_view text) { return file_.write(std::as_bytes(std::span(text))); }

  OutputFile file_;
  std::vector<Entry> entries_;
  uint64_t written_ = 0;  // of the open entry
};

}  // namespace ttap
