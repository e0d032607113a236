#include "store/files/posix_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <random>

namespace ttap {

Error errno_error(std::string_view what, const std::filesystem::path& path) {
  const int number = errno;
  Error error{ErrorCode::kIo, fmt::format("{}: {}", what, std::strerror(number)), path.string()};
  if (number == ENOSPC || number == EDQUOT) error.code = ErrorCode::kNoSpace;
  if (number == ENOENT || number == ENOTDIR) error.code = ErrorCode::kNotFound;
  return error;
}

Result<FileDescriptor> FileDescriptor::open(const std::filesystem::path& path, int flags, unsigned mode) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags, mode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return errno_error("cannot open", path);
  return FileDescriptor(fd);
}

std::optional<FileIdentity> FileIdentity::of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return std::nullopt;
  return FileIdentity{status.st_dev, status.st_ino};
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    if (is_ours()) ::close(fd_);
    fd_ = std::exchange(other.fd_, -1);
    identity_ = std::exchange(other.identity_, {});
  }
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (is_ours()) ::close(fd_);
}

Status FileDescriptor::check_is_ours(const std::filesystem::path& path) const {
  if (is_ours()) return {};
  return Error{.code = ErrorCode::kIo,
               .message = "the program has closed TensorTap's file descriptor",
               .path = path.string(),
               .hint = "close the recording before closing every descriptor (to become a daemon), and begin it after"};
}

Status FileDescriptor::close(const std::filesystem::path& path) {
  if (fd_ >= 0 && !is_ours()) {
    const Status lost = check_is_ours(path);
    fd_ = -1;
    return lost;
  }
  // On Linux the descriptor is gone whatever close() answers, so it is never retried.
  if (fd_ >= 0 && ::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) return errno_error("cannot close", path);
  return {};
}

Status write_all(int fd, uint64_t offset, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  return write_all(fd, offset, std::span(&part, 1), path);
}

Status write_all(int fd, uint64_t offset, std::span<iovec> parts, const std::filesystem::path& path) {
  while (!parts.empty()) {
    if (parts.front().iov_len == 0) {
      parts = parts.subspan(1);
      continue;
    }
    const int count = static_cast<int>(std::min<size_t>(parts.size(), IOV_MAX));
    const ssize_t written = ::pwritev(fd, parts.data(), count, static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno_error("cannot write", path);
    }
    if (written == 0) return Error{ErrorCode::kIo, "cannot write: nothing was taken", path.string()};
    offset += static_cast<uint64_t>(written);
    auto left = static_cast<size_t>(written);
    while (left > 0) {
      const size_t step = std::min(left, parts.front().iov_len);
      parts.front().iov_base = static_cast<std::byte*>(parts.front().iov_base) + step;
      parts.front().iov_len -= step;
      left -= step;
      if (parts.front().iov_len == 0) parts = parts.subspan(1);
    }
  }
  return {};
}

Status lock_exclusively(int fd, LockWait wait, const std::filesystem::path& path) {
  int result = -1;
  do {
    result = ::flock(fd, LOCK_EX | (wait == LockWait::kYes ? 0 : LOCK_NB));
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno == EWOULDBLOCK) return Error{ErrorCode::kInvalidArgument, "is locked", path.string()};
  if (result != 0) return Error{ErrorCode::kUnsupported, "the file system has no locks", path.string()};
  return {};
}

Status rename_to_new(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return {};
  if (errno == EEXIST)
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("{} is there already", to.filename().string()),
                 .path = from.string(),
                 .hint = "move one of the two away"};
  // A file system that does not know the flag.
  std::error_code error;
  if ((errno == EINVAL || errno == ENOSYS) && !std::filesystem::exists(to, error) &&
      ::rename(from.c_str(), to.c_str()) == 0)
    return {};
  return errno_error("cannot rename", from);
}

namespace {

// The descriptors that a forked child closes. The mutex is held across fork(), so the child finds the set whole.
struct ForkPrivate {
  std::mutex mutex;
  std::map<int, FileIdentity> descriptors;  // and what they stood for

  static ForkPrivate& instance() {
    static ForkPrivate* const state = [] {
      auto* made = new ForkPrivate;  // never destroyed: a fork may come after static destructors
      pthread_atfork([] { instance().mutex.lock(); }, [] { instance().mutex.unlock(); },
                     [] {
                       for (const auto& [fd, file] : instance().descriptors)
                         if (FileIdentity::of(fd) == file) ::close(fd);
                       instance().descriptors.clear();
                       instance().mutex.unlock();
                     });
      return made;
    }();
    return *state;
  }
};

}  // namespace

void close_in_forked_child(int fd) {
  ForkPrivate& state = ForkPrivate::instance();
  const std::lock_guard lock(state.mutex);
  if (const auto file = FileIdentity::of(fd)) state.descriptors.insert_or_assign(fd, *file);
}

void keep_in_forked_child(int fd) {
  ForkPrivate& state = ForkPrivate::instance();
  const std::lock_guard lock(state.mutex);
  state.descriptors.erase(fd);
}

Result<OutputFile> OutputFile::create(const std::filesystem::path& path) {
  // Under a name that nobody can have taken before, be it with a link to somewhere else.
  std::random_device random;
  std::filesystem::path partial = path;
  partial += fmt::format(".{:08x}{:08x}.partial", random(), random());
  constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  TTAP_ASSIGN(FileDescriptor file, FileDescriptor::open(partial, kNew));
  return OutputFile(path, std::move(partial), std::move(file));
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      partial_(std::exchange(other.partial_, {})),
      file_(std::move(other.file_)),
      position_(other.position_) {}

OutputFile::~OutputFile() {
  if (!partial_.empty()) ::unlink(partial_.c_str());
}

Status OutputFile::write(std::span<const std::byte> bytes) {
  TTAP_TRY(write_all(file_.get(), position_, bytes, partial_));
  position_ += bytes.size();
  return {};
}

Status OutputFile::commit() {
  TTAP_TRY(file_.close(partial_));
  if (::rename(partial_.c_str(), path_.c_str()) != 0) return errno_error("cannot rename", partial_);
  partial_.clear();
  return {};
}

}  // namespace ttap
