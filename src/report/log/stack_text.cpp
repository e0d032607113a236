#include "report/log/stack_text.h"

#include <algorithm>
#include <array>
#include <utility>

#include "report/text/text.h"

namespace ttap {
namespace {

// What stands behind `/torch/` in PyTorch's own files, installed or not; a program may lie in a folder `torch`, too.
constexpr std::array<std::string_view, 16> kTorchParts = {
    "_",       "amp/", "ao/", "autograd/", "backends/", "compiler/", "cuda/",  "distributed/",
    "export/", "func", "fx/", "jit/",      "library",   "nn/",       "optim/", "utils/"};

bool is_installed(std::string_view path, size_t folder) {
  const std::string_view before = path.substr(0, folder);
  return before.ends_with("/site-packages") || before.ends_with("/dist-packages");
}

}  // namespace

bool is_user_frame(std::string_view frame) {
  const std::string_view place = frame.substr(0, frame.find('\t'));
  const std::string_view path = place.substr(0, place.rfind(" in "));
  if (path.starts_with("<frozen ")) return false;
  if (const size_t at = path.rfind("/torch/"); at != std::string_view::npos) {
    const std::string_view rest = path.substr(at + 7);
    const bool part = std::ranges::any_of(kTorchParts, [&](std::string_view name) { return rest.starts_with(name); });
    if (part || is_installed(path, at)) return false;
  }
  if (const size_t at = path.rfind("/tensortap/"); at != std::string_view::npos) {
    const std::string_view rest = path.substr(at + 11);
    const bool in_source_tree = path.substr(0, at).ends_with("/python");
    const bool at_top = rest.find('/') == std::string_view::npos;
    if (in_source_tree || at_top || rest.starts_with("launch/") || is_installed(path, at)) return false;
  }
  return true;
}

void StackText::write(std::string_view stack, std::string_view margin, Output& out) {
  if (frames_ == StackFrames::kNone || stack.empty()) return;
  if (stack.data() == last_.data() && stack.size() == last_.size()) return;  // equal stacks are stored once
  last_ = stack;
  size_t count = 0;
  size_t same = 0;   // frames that the last stack had, too
  size_t shown = 0;  // frames of those that count
  size_t same_shown = 0;
  while (!stack.empty()) {
    const std::string_view text = stack.substr(0, stack.find('\n'));
    stack.remove_prefix(std::min(text.size() + 1, stack.size()));
    if (count == stack_.size() || stack_[count].text != text) {
      stack_.resize(count);
      stack_.push_back({text, frames_ == StackFrames::kAll || is_user_frame(text)});
    } else {
      same = count + 1;
      same_shown += stack_[count].shown ? 1 : 0;
    }
    shown += stack_[count++].shown ? 1 : 0;
  }
  stack_.resize(count);
  const bool any_shown = shown > 0;
  const size_t last_shown = std::exchange(last_shown_, shown);
  if (any_shown && same_shown == shown && last_shown == shown) return;
  size_t innermost = count - 1;
  while (any_shown && !stack_[innermost].shown) --innermost;
  for (size_t i = std::min(same, innermost); i < count; ++i) {
    if (!stack_[i].shown && (any_shown || i != innermost)) continue;
    const std::string_view place = stack_[i].text.substr(0, stack_[i].text.find('\t'));
    std::string line = fmt::format("{}# {}: {}", margin, label_, printable(place));
    if (place.size() < stack_[i].text.size())
      line += fmt::format(", code: {}", printable(stack_[i].text.substr(place.size() + 1)));
    out.write(Style::kDim, line);
    out.write("\n");
  }
}

void StackText::write_none(std::string_view margin, Output& out) {
  if (last_.empty()) return;
  last_ = {};
  stack_.clear();
  last_shown_ = 0;
  out.write(Style::kDim, fmt::format("{}# {}: none", margin, label_));
  out.write("\n");
}

}  // namespace ttap
