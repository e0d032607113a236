#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "ttap/result.h"

struct iovec;

namespace ttap {

// An Error for errno, kNoSpace when that is what it says, kNotFound for a missing file.
Error errno_error(std::string_view what, const std::filesystem::path& path);

// Which file a descriptor stands for.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
  static std::optional<FileIdentity> of(int fd);  // nothing when it is closed
};

// Owns a file descriptor. A program may close every descriptor it has, ours among them, and open files of its own that
// get the same numbers: those are neither written to nor closed.
class FileDescriptor {
 public:
  static Result<FileDescriptor> open(const std::filesystem::path& path, int flags, unsigned mode = 0644);
  FileDescriptor() = default;
  FileDescriptor(FileDescriptor&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), identity_(std::exchange(other.identity_, {})) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  // kIo when the program has closed it.
  Status check_is_ours(const std::filesystem::path& path) const;
  // The one place where a failed close is seen.
  Status close(const std::filesystem::path& path);

 private:
  explicit FileDescriptor(int fd) : fd_(fd), identity_(FileIdentity::of(fd)) {}
  bool is_ours() const { return fd_ >= 0 && identity_ && FileIdentity::of(fd_) == identity_; }
  int fd_ = -1;
  std::optional<FileIdentity> identity_ = {};
};

// All of `parts` at `offset`, or an error: short writes are continued, EINTR is retried. `parts` is used up.
Status write_all(int fd, uint64_t offset, std::span<iovec> parts, const std::filesystem::path& path);
Status write_all(int fd, uint64_t offset, std::span<const std::byte> bytes, const std::filesystem::path& path);

// An exclusive flock. Fails with kInvalidArgument when another holds it and `wait` is false, with kUnsupported where
// the file system has no locks.
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
