#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "store/files/posix_file.h"
#include "ttap/result.h"

namespace ttap {

// A regular file, mapped read-only. Private to the mapping's lifetime: a reader that hands out spans keeps the
// shared_ptr. Fails with kNotFound, kIo, or kNotThisFormat for what is not a regular file.
class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);
  // A file that its writer may shorten, under which a mapping would kill this process: bytes() is memory of its own,
  // and holds only what load() has read; the rest is zero.
  static Result<std::shared_ptr<const MappedFile>> open_unfinished(const std::filesystem::path& path);
  // Reads a part of such a file; of one that is mapped there is nothing to do. What is not there any more is
  // kTruncated.
  Status load(uint64_t offset, uint64_t size) const;
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  MappedFile(std::filesystem::path path, std::byte* data, size_t size, FileDescriptor file)
      : path_(std::move(path)), data_(data), size_(size), file_(std::move(file)) {}
  enum class Bytes : uint8_t { kOfFile, kOfOurOwn };
  static Result<std::shared_ptr<const MappedFile>> open_as(Bytes bytes, const std::filesystem::path& path);

  std::filesystem::path path_;
  std::byte* data_;
  size_t size_;
  FileDescriptor file_;  // open where load() reads from it
  mutable std::mutex loading_;
};

// The text of a file beside the passes (rank.json); empty when it is not there, or not what such a file can be.
std::string side_file_text(const std::filesystem::path& path);

}  // namespace ttap
