#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

#include "ttap/result.h"

struct iovec;

namespace ttap {

// An Error for errno, kNoSpace when that is what it says, kNotFound for a missing file.
Error errno_error(std::string_view what, const std::filesystem::path& path);

// Owns a file descriptor.
class FileDescriptor {
 public:
  static Result<FileDescriptor> open(const std::filesystem::path& path, int flags, unsigned mode = 0644);
  FileDescriptor() = default;
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  // The one place where a failed close is seen.
  Status close(const std::filesystem::path& path);

 private:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  int fd_ = -1;
};

// All of `parts` at `offset`, or an error: short writes are continued, EINTR is retried. `parts` is used up.
Status write_all(int fd, uint64_t offset, std::span<iovec> parts, const std::filesystem::path& path);
Status write_all(int fd, uint64_t offset, std::span<const std::byte> bytes, const std::filesystem::path& path);

// An exclusive flock. Fails with kInvalidArgument when another holds it and `wait` is false; a file system without
// locks is no error: the lock only tells others who is at work.
enum class LockWait : uint8_t { kNo, kYes };
Status lock_exclusively(int fd, LockWait wait, const std::filesystem::path& path);

// Never replaces what is there.
Status rename_to_new(const std::filesystem::path& from, const std::filesystem::path& to);

// A forked child closes this descriptor at once: the child would otherwise hold our locks after we die.
void close_in_forked_child(int fd);
void keep_in_forked_child(int fd);

// A file that appears under its name only when it is whole: written to `<name>.partial`, renamed by commit(),
// removed when dropped before that.
class OutputFile {
 public:
  static Result<OutputFile> create(const std::filesystem::path& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  Status write(std::span<const std::byte> bytes);
  uint64_t position() const { return position_; }
  Status commit();

 private:
  OutputFile(std::filesystem::path path, std::filesystem::path partial, FileDescriptor file)
      : path_(std::move(path)), partial_(std::move(partial)), file_(std::move(file)) {}

  std::filesystem::path path_;
  std::filesystem::path partial_;  // empty once committed or moved from
  FileDescriptor file_;
  uint64_t position_ = 0;
};

}  // namespace ttap
