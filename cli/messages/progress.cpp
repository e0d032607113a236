#include "cli/messages/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace ttap::cli {
namespace {

constexpr auto kFirst = std::chrono::milliseconds(300);
constexpr auto kEvery = std::chrono::milliseconds(100);

void to_stderr(std::string_view text) {
  // A terminal that will not take a progress line does not matter.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

Progress::Progress(std::string label, uint64_t total)
    : label_(std::move(label)), total_(total), enabled_(::isatty(STDERR_FILENO) == 1), next_(Clock::now() + kFirst) {}

Progress::~Progress() { wipe(); }

void Progress::wipe() {
  if (drawn_) to_stderr("\r\x1b[K");
  drawn_ = false;
}

void Progress::maybe_draw() {
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + kEvery;
  drawn_ = true;
  if (total_ == 0) return to_stderr(fmt::format("\r{} ...\x1b[K", label_));
  const double share = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
  constexpr int kBar = 24;
  const int filled = static_cast<int>(share * kBar);
  to_stderr(fmt::format("\r{} [{:#<{}}{:.<{}}] {:.0f} %\x1b[K", label_, "", filled, "", kBar - filled, 100 * share));
}

}  // namespace ttap::cli
