#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "store/files/posix_file.h"
#include "store/segment/disk_pace.h"
#include "ttap/result.h"

namespace ttap {

// What direct writing asks of addresses, offsets and lengths on every file system we know; one that asks for more
// refuses, and is written through the cache.
inline constexpr uint64_t kDirectAlignment = 4096;
// Blobs from here on begin on a multiple of kDirectAlignment, and are written directly where their memory does too.
// Below, the round trip to the disk costs more than the copy into the cache.
inline constexpr uint64_t kDirectBytes = uint64_t{512} << 10;

// The file of a segment while it is written: one descriptor through the page cache and, once there is a large part, one
// round it. The two never write to the same page: of a direct part the whole pages go directly, its end goes through
// the cache with what follows. Used by one thread.
class SegmentFile {
 public:
  // Creates and locks it. `pace` may be null: everything goes through the cache.
  static Result<SegmentFile> create(const std::filesystem::path& path, DiskPace* pace);
  SegmentFile(SegmentFile&& other) noexcept = default;
  SegmentFile& operator=(SegmentFile&&) = delete;
  ~SegmentFile();

  // All of `parts` from `offset` on, front to back, so that a torn file ends where writing stopped; or an error, and
  // then a part of it may be there. `parts` is used up.
  Status write(uint64_t offset, std::span<iovec> parts);
  Status write(uint64_t offset, std::span<const std::byte> bytes);
  Status cut(uint64_t length);
  Status sync();
  // Unlocks it. Errors name `name`, which it may have got by now.
  Status close(const std::filesystem::path& name);

  const std::filesystem::path& path() const { return path_; }
  // How much of it went round the cache.
  uint64_t direct_bytes() const { return direct_bytes_; }

 private:
  SegmentFile(std::filesystem::path path, FileDescriptor file, DiskPace* pace)
      : path_(std::move(path)), file_(std::move(file)), pace_(pace) {}
  bool could_go_directly(uint64_t offset, const iovec& part) const;
  Result<uint64_t> write_directly(uint64_t offset, std::span<const std::byte> bytes);

  std::filesystem::path path_;
  FileDescriptor file_;
  FileDescriptor direct_;  // opened when first needed
  DiskPace* pace_;         // null from when the file system refuses
  uint64_t direct_bytes_ = 0;
};

}  // namespace ttap
