#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "report/text/terminal.h"
#include "ttap/api.h"
#include "ttap/result.h"

namespace ttap {

// Buffered text to a file descriptor, or into a string. A reader that has gone away (`| head`) is no error: what
// follows is dropped.
class TTAP_API Output {
 public:
  Output(int fd, Terminal terminal) : fd_(fd), terminal_(terminal) {}
  explicit Output(std::string& text, Terminal terminal = {}) : text_(&text), terminal_(terminal) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  const Terminal& terminal() const { return terminal_; }

  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(fmt::appender(buffer_), format, std::forward<Args>(args)...);
    if (buffer_.size() >= kFlushBytes) flush();
  }
  void write(std::string_view text);
  void write(Style style, std::string_view text);

  // Whether nobody reads any more, so that long work can stop.
  bool closed() const { return closed_; }
  void flush();
  // Writes what is left; the first error that was met, if any.
  Status finish();

 private:
  static constexpr size_t kFlushBytes = 64 * 1024;

  int fd_ = -1;
  std::string* text_ = nullptr;
  Terminal terminal_;
  fmt::memory_buffer buffer_;
  bool closed_ = false;
  std::optional<Error> error_;
};

// What `write(Output&)` puts out.
template <class Write>
std::string output_text(Write&& write) {
  std::string text;
  Output out(text);
  write(out);
  out.flush();
  return text;
}

}  // namespace ttap
