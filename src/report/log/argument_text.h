#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace ttap {

// Arguments or results of a call as a person reads them: long lists of numbers and long strings end in `…`. Lists of
// tensors stay whole.
std::string shortened_arguments(std::string_view text);

// The parts of such a text: `plain` is given what stands between the tensors, `tensor` the number of each use, and
// returns false where the call has no such use: then a percent sign is shown.
template <class Plain, class Tensor>
void for_each_part(std::string_view whole, const Plain& plain, const Tensor& tensor) {
  const std::string shortened = shortened_arguments(whole);
  std::string_view text = shortened;
  while (!text.empty()) {
    const size_t percent = text.find('%');
    plain(text.substr(0, percent));
    if (percent == std::string_view::npos) return;
    text.remove_prefix(percent + 1);
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc{} && tensor(number)) {
      text.remove_prefix(static_cast<size_t>(end - text.data()));
      continue;
    }
    plain("%");
    if (text.starts_with('%')) text.remove_prefix(1);
  }
}

}  // namespace ttap
