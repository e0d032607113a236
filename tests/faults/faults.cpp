// Fails one system call of a program, or all from one on. To be preloaded; the test arms it by the functions at the
// end. Only calls on files below one directory count, so that the program's own files are not touched.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace {

// In place of an errno.
constexpr int kShort = -1;  // a write takes half of what it is given
constexpr int kStall = -2;  // it takes half a second
constexpr int kHang = -3;   // it does not return

constexpr size_t kMostCalls = 100'000;
constexpr int kMostFiles = 4096;

std::array<char, 1024> watched{};
std::array<std::atomic<bool>, kMostFiles> is_watched_file{};
std::array<std::atomic<const char*>, kMostCalls> names{};
std::atomic<size_t> calls{0};
std::atomic<long> first_to_fail{-1};
std::atomic<int> how_to_fail{0};
std::atomic<bool> fails_for_good{false};

bool is_watched(const char* path) {
  const size_t length = std::strlen(watched.data());
  return length > 0 && std::strncmp(path, watched.data(), length) == 0;
}
bool is_watched(int file) { return file >= 0 && file < kMostFiles && is_watched_file[static_cast<size_t>(file)]; }
void note_file(int file, bool watch) {
  if (file >= 0 && file < kMostFiles) is_watched_file[static_cast<size_t>(file)] = watch;
}

// How this call is to fail; 0: not at all.
int fault(const char* name, bool is_ours) {
  if (!is_ours) return 0;
  const size_t number = calls++;
  if (number < kMostCalls) names[number] = name;
  const long first = first_to_fail;
  if (first < 0 || static_cast<long>(number) < first) return 0;
  if (static_cast<long>(number) > first && !fails_for_good) return 0;
  const int how = how_to_fail;
  if (how != kStall && how != kHang) return how;
  const timespec half{.tv_sec = 0, .tv_nsec = 500'000'000};
  do {
    ::nanosleep(&half, nullptr);
  } while (how == kHang);
  return 0;
}

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

// The rest of a function's body: fails, or calls the real one.
#define TTAP_FAIL_OR_CALL(name, is_ours, ...) \
  const int how = fault(#name, is_ours);      \
  if (how > 0) {                              \
    errno = how;                              \
    return decltype(name(__VA_ARGS__))(-1);   \
  }                                           \
  static const auto function = real<decltype(&::name)>(#name)

}  // namespace

extern "C" {

#define TTAP_OPEN(name)                                                                         \
  int name(const char* path, int flags, ...) {                                                  \
    va_list arguments;                                                                          \
    va_start(arguments, flags);                                                                 \
    const mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0; \
    va_end(arguments);                                                                          \
    TTAP_FAIL_OR_CALL(name, is_watched(path), path, flags);                                     \
    const int file = function(path, flags, mode);                                               \
    note_file(file, is_watched(path));                                                          \
    return file;                                                                                \
  }
TTAP_OPEN(open)
TTAP_OPEN(open64)  // Python's
#define TTAP_OPENAT(name)                                                                       \
  int name(int directory, const char* path, int flags, ...) {                                   \
    va_list arguments;                                                                          \
    va_start(arguments, flags);                                                                 \
    const mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0; \
    va_end(arguments);                                                                          \
    TTAP_FAIL_OR_CALL(name, is_watched(path), directory, path, flags);                          \
    const int file = function(directory, path, flags, mode);                                    \
    note_file(file, is_watched(path));                                                          \
    return file;                                                                                \
  }
TTAP_OPENAT(openat)

#define TTAP_WRITE(name, length, shorter, parameters, ...)  \
  ssize_t name parameters {                                 \
    TTAP_FAIL_OR_CALL(name, is_watched(file), __VA_ARGS__); \
    if (how == kShort && (length) > 1) (shorter);           \
    return function(__VA_ARGS__);                           \
  }
TTAP_WRITE(write, size, size /= 2, (int file, const void* bytes, size_t size), file, bytes, size)
TTAP_WRITE(pwrite, size, size /= 2, (int file, const void* bytes, size_t size, off_t at), file, bytes, size, at)
// Of several parts, one is taken and half of it.
ssize_t pwritev(int file, const iovec* parts, int count, off_t at) {
  TTAP_FAIL_OR_CALL(pwritev, is_watched(file), file, parts, count, at);
  if (how != kShort || count == 0) return function(file, parts, count, at);
  const iovec half{parts[0].iov_base, std::max<size_t>(parts[0].iov_len / 2, 1)};
  return function(file, &half, 1, at);
}
TTAP_WRITE(read, size, size /= 2, (int file, void* bytes, size_t size), file, bytes, size)
TTAP_WRITE(pread, size, size /= 2, (int file, void* bytes, size_t size, off_t at), file, bytes, size, at)

#define TTAP_PLAIN(result, name, is_ours, parameters, ...) \
  result name parameters {                                 \
    TTAP_FAIL_OR_CALL(name, is_ours, __VA_ARGS__);         \
    return function(__VA_ARGS__);                          \
  }
TTAP_PLAIN(int, fsync, is_watched(file), (int file), file)
TTAP_PLAIN(int, fdatasync, is_watched(file), (int file), file)
TTAP_PLAIN(int, ftruncate, is_watched(file), (int file, off_t size), file, size)
TTAP_PLAIN(int, flock, is_watched(file), (int file, int operation) noexcept, file, operation)
TTAP_PLAIN(int, mkdir, is_watched(path), (const char* path, mode_t mode) noexcept, path, mode)
TTAP_PLAIN(int, unlink, is_watched(path), (const char* path) noexcept, path)
TTAP_PLAIN(int, rename, is_watched(from), (const char* from, const char* to) noexcept, from, to)
TTAP_PLAIN(int, renameat2, is_watched(from),
           (int from_directory, const char* from, int to_directory, const char* to, unsigned flags) noexcept,
           from_directory, from, to_directory, to, flags)
TTAP_PLAIN(int, stat, is_watched(path), (const char* path, struct stat* status) noexcept, path, status)
TTAP_PLAIN(int, fstat, is_watched(file), (int file, struct stat* status) noexcept, file, status)
// Called before dlsym() can be: straight to the kernel.
void* mmap(void* address, size_t size, int protection, int flags, int file, off_t at) noexcept {
  const int how = (flags & MAP_ANONYMOUS) != 0 ? 0 : fault("mmap", is_watched(file));
  if (how > 0) {
    errno = how;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(::syscall(SYS_mmap, address, size, protection, flags, file, at));
}

// On Linux the descriptor is gone even where close() fails.
int close(int file) {
  const int how = fault("close", is_watched(file));
  note_file(file, false);
  static const auto function = real<decltype(&::close)>("close");
  const int result = function(file);
  if (how <= 0) return result;
  errno = how;
  return -1;
}

// ---- for the test ----

void ttap_faults_watch(const char* directory) { std::snprintf(watched.data(), watched.size(), "%s", directory); }
// From now on the call of that number, counted from 0, fails that way.
void ttap_faults_arm(long first, int how, int for_good) {
  calls = 0;
  how_to_fail = how;
  fails_for_good = for_good != 0;
  first_to_fail = first;
}
size_t ttap_faults_calls() { return calls; }
const char* ttap_faults_name(size_t number) { return number < kMostCalls ? names[number].load() : nullptr; }

}  // extern "C"
