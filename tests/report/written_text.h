#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "report/text/output.h"

namespace ttap {

// What `write` writes to an Output with this terminal.
template <class Write>
std::string written(Write&& write, Terminal terminal = {}) {
  const int fd = ::memfd_create("output", 0);
  Output out(fd, terminal);
  write(out);
  TTAP_CHECK(out.finish().ok());
  std::string text(static_cast<size_t>(::lseek(fd, 0, SEEK_END)), '\0');
  TTAP_CHECK(::pread(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  ::close(fd);
  return text;
}

}  // namespace ttap
