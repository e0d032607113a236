#include "report/text/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace ttap {

Status write_file(const std::string& path, const std::function<Status(Output&)>& write) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0)
    return Error{.code = ErrorCode::kIo,
                 .message = fmt::format("cannot write: {}", std::strerror(errno)),
                 .path = path,
                 .hint = kWritable};
  Output out(fd, {});
  const Status made = write(out);
  Status written = out.finish();
  if (::close(fd) != 0 && written.ok())
    written = Error{.code = ErrorCode::kIo, .message = fmt::format("cannot close: {}", std::strerror(errno))};
  if (made.ok() && written.ok()) return {};
  std::error_code ignored;  // half a file would be taken for a whole one; a device stays
  if (std::filesystem::is_regular_file(path, ignored)) std::filesystem::remove(path, ignored);
  if (!made.ok()) return made;
  return std::move(written).error().with_path(path);
}

}  // namespace ttap
