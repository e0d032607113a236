#include "cli/doctor/disk_speed.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <memory>

#include "store/files/posix_file.h"

namespace ttap::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPage = 4096;
constexpr size_t kBlock = size_t{8} << 20;
constexpr uint64_t kMost = uint64_t{256} << 20;
constexpr std::chrono::milliseconds kLongest{2000};  // a slow disk is known to be slow after that

// Removes the file, however the measurement ends.
struct Removed {
  fs::path path;
  ~Removed() { (void)::unlink(path.c_str()); }
};

Result<FileDescriptor> create(const fs::path& path, bool direct) {
  return FileDescriptor::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | (direct ? O_DIRECT : 0), 0600);
}

}  // namespace

Result<DiskSpeed> measure_disk_speed(const fs::path& directory) {
  DiskSpeed speed;
  std::error_code error;
  const fs::space_info space = fs::space(directory, error);
  if (error) return Error{ErrorCode::kNotFound, "cannot be asked how much room it has", directory.string()};
  speed.free_bytes = space.available;

  const Removed file{directory / fmt::format(".ttap-doctor-{}", ::getpid())};
  auto opened = create(file.path, /*direct=*/true);
  speed.direct = opened.ok();
  if (!opened.ok()) opened = create(file.path, /*direct=*/false);
  if (!opened.ok()) return opened.error();

  const std::unique_ptr<std::byte, decltype(&std::free)> block(
      static_cast<std::byte*>(std::aligned_alloc(kPage, kBlock)), &std::free);
  if (block == nullptr) return Error{ErrorCode::kTooLarge, "no memory for the measurement"};
  // Not zeros, which some disks do not store.
  uint32_t state = 1;
  for (size_t i = 0; i < kBlock; ++i)
    block.get()[i] = static_cast<std::byte>((state = state * 1664525u + 1013904223u) >> 24);

  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  uint64_t written = 0;
  while (written < kMost && written + kBlock < speed.free_bytes && Clock::now() - begin < kLongest) {
    TTAP_TRY(write_all(opened->get(), written, std::span(block.get(), kBlock), file.path));
    written += kBlock;
  }
  if (::fdatasync(opened->get()) != 0) return errno_error("cannot be written to", file.path);
  speed.bytes_per_second = static_cast<double>(written) / std::chrono::duration<double>(Clock::now() - begin).count();
  return speed;
}

}  // namespace ttap::cli
