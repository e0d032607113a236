#include "report/text/output.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ttap {

void Output::write(std::string_view text) {
  buffer_.append(text);
  if (buffer_.size() >= kFlushBytes) flush();
}

void Output::write(Style style, std::string_view text) {
  if (!terminal_.color || style == Style::kPlain) return write(text);
  buffer_.append(escape_of(style));
  buffer_.append(text);
  write(kResetEscape);
}

void Output::flush() {
  if (text_ != nullptr) text_->append(buffer_.data(), buffer_.size());
  size_t done = text_ != nullptr ? buffer_.size() : 0;
  while (!closed_ && done < buffer_.size()) {
    const ssize_t written = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
    if (written >= 0) {
      done += static_cast<size_t>(written);
    } else if (errno == EAGAIN) {  // somebody made our pipe non-blocking
      pollfd wait{fd_, POLLOUT, 0};
      (void)::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      closed_ = true;
      if (errno != EPIPE)
        error_ = Error{.code = errno == ENOSPC ? ErrorCode::kNoSpace : ErrorCode::kIo,
                       .message = fmt::format("cannot write the output: {}", std::strerror(errno))};
    }
  }
  buffer_.clear();
}

Status Output::finish() {
  flush();
  if (error_) return *error_;
  return {};
}

}  // namespace ttap
