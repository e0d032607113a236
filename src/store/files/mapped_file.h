#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "ttap/result.h"

namespace ttap {

// A regular file, mapped read-only. Private to the mapping's lifetime: a reader that hands out spans keeps the
// shared_ptr. Fails with kNotFound, kIo, or kNotThisFormat for what is not a regular file.
class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  MappedFile(std::filesystem::path path, const std::byte* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  std::filesystem::path path_;
  const std::byte* data_;
  size_t size_;
};

}  // namespace ttap
