#include "report/diff/diff_page.h"

#include <span>

#include "store/files/posix_file.h"

// The assembled page, from viewer/page.S.
extern "C" {
extern const char ttap_page_begin[];
extern const char ttap_page_end[];
}

namespace ttap {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      default: result += c;
    }
  }
  return result;
}

// JSON that HTML cannot take for its own: `</script>` and `<!--` in a string would end or swallow the element, and two
// line separators of Unicode are not allowed in JavaScript.
Status write_json(OutputFile& file, std::string_view json) {
  size_t done = 0;
  for (size_t at = json.find_first_of("<\xE2"); at != std::string_view::npos;
       at = json.find_first_of("<\xE2", at + 1)) {
    const bool less = json[at] == '<';
    const std::string_view three = json.substr(at, 3);
    if (!less && three != "\xE2\x80\xA8" && three != "\xE2\x80\xA9") continue;
    TTAP_TRY(file.write(bytes_of(json.substr(done, at - done))));
    TTAP_TRY(file.write(bytes_of(less ? "\\u003c" : three.back() == '\xA8' ? "\\u2028" : "\\u2029")));
    done = at + (less ? 1 : 3);
  }
  return file.write(bytes_of(json.substr(done)));
}

}  // namespace

Status write_page(std::string_view report_json, const std::string& title, const std::filesystem::path& path) {
  return write_page_of({ttap_page_begin, static_cast<size_t>(ttap_page_end - ttap_page_begin)}, report_json, title,
                       path);
}

Status write_page_of(std::string_view page, std::string_view report_json, const std::string& title,
                     const std::filesystem::path& path) {
  constexpr std::string_view kTitle = "{{title}}";
  constexpr std::string_view kReport = "{{report}}";
  if (page.empty())
    return Error{.code = ErrorCode::kUnsupported,
                 .message = "this build has no report page: it found no Plotly when it was configured",
                 .path = path.string(),
                 .hint =
                     "install the Python package plotly for the interpreter that the build uses, or name a file "
                     "with cmake -DTTAP_PLOTLY_JS=/path/to/plotly.min.js, then configure and build again"};
  const size_t title_at = page.find(kTitle);
  const size_t report_at = page.find(kReport, title_at);
  TTAP_CHECK(title_at != std::string_view::npos && report_at != std::string_view::npos);

  TTAP_ASSIGN(OutputFile file, OutputFile::create(path));
  TTAP_TRY(file.write(bytes_of(page.substr(0, title_at))));
  TTAP_TRY(file.write(bytes_of(escaped(title))));
  const size_t after_title = title_at + kTitle.size();
  TTAP_TRY(file.write(bytes_of(page.substr(after_title, report_at - after_title))));
  TTAP_TRY(write_json(file, report_json));
  TTAP_TRY(file.write(bytes_of(page.substr(report_at + kReport.size()))));
  return file.commit();
}

}  // namespace ttap
