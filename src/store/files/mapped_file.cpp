#include "store/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace ttap {

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  return open_as(Bytes::kOfFile, path);
}

Result<std::shared_ptr<const MappedFile>> MappedFile::open_unfinished(const std::filesystem::path& path) {
  return open_as(Bytes::kOfOurOwn, path);
}

Result<std::shared_ptr<const MappedFile>> MappedFile::open_as(Bytes bytes, const std::filesystem::path& path) {
  TTAP_ASSIGN(FileDescriptor file, FileDescriptor::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return errno_error("cannot stat", path);
  if (!S_ISREG(status.st_mode)) return Error{ErrorCode::kNotThisFormat, "not a regular file", path.string()};
  const auto size = static_cast<size_t>(status.st_size);
  std::byte* data = nullptr;
  if (size > 0) {
    constexpr int kOwn = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* mapped = bytes == Bytes::kOfFile ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0)
                                           : ::mmap(nullptr, size, PROT_READ | PROT_WRITE, kOwn, -1, 0);
    if (mapped == MAP_FAILED) return errno_error("cannot map", path);
    data = static_cast<std::byte*>(mapped);
  }
  if (bytes == Bytes::kOfFile) file = {};
  return std::shared_ptr<const MappedFile>(new MappedFile(path, data, size, std::move(file)));
}

MappedFile::~MappedFile() {
  if (size_ > 0) ::munmap(data_, size_);
}

Status MappedFile::load(uint64_t offset, uint64_t size) const {
  if (!file_.is_open()) return {};
  const Error truncated{ErrorCode::kTruncated, "the file has become shorter", path_.string(), offset};
  if (offset > size_ || size > size_ - offset) return truncated;
  TTAP_TRY(file_.check_is_ours(path_));
  const std::lock_guard lock(loading_);
  for (uint64_t done = 0; done < size;) {
    const ssize_t read = ::pread(file_.get(), data_ + offset + done, size - done, static_cast<off_t>(offset + done));
    if (read < 0 && errno == EINTR) continue;
    if (read < 0) return errno_error("cannot read", path_);
    if (read == 0) return truncated;
    done += static_cast<uint64_t>(read);
  }
  return {};
}

std::string side_file_text(const std::filesystem::path& path) {
  constexpr size_t kMostBytes = 64 << 20;
  const auto file = MappedFile::open_unfinished(path);  // its writer may replace it
  if (!file.ok()) return {};
  const std::span<const std::byte> bytes = (*file)->bytes();
  if (bytes.size() > kMostBytes || !(*file)->load(0, bytes.size()).ok()) return {};
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace ttap
