#include "report/text/terminal.h"

#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>

namespace ttap {

std::string_view escape_of(Style style) {
  switch (style) {
    case Style::kPlain: return "";
    case Style::kBold: return "\x1b[1m";
    case Style::kDim: return "\x1b[2m";
    case Style::kRed: return "\x1b[1;31m";
    case Style::kGreen: return "\x1b[32m";
    case Style::kYellow: return "\x1b[33m";
    case Style::kCyan: return "\x1b[36m";
  }
  return "";
}

Terminal Terminal::of(int fd, ColorChoice choice) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  Terminal terminal;
  terminal.is_terminal = ::isatty(fd) == 1;
  terminal.color = choice == ColorChoice::kAlways || (choice == ColorChoice::kAuto && terminal.is_terminal &&
                                                      variable("NO_COLOR").empty() && variable("TERM") != "dumb");
  if (!terminal.is_terminal) return terminal;
  winsize size{};
  terminal.width = ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  // Only the character set is asked for; numbers keep their point whatever the locale.
  if (const locale_t locale = ::newlocale(LC_CTYPE_MASK, "", nullptr); locale != nullptr) {
    terminal.unicode = std::string_view(::nl_langinfo_l(CODESET, locale)) == "UTF-8";
    ::freelocale(locale);
  }
  return terminal;
}

}  // namespace ttap
