#include "report/diff/diff_page.h"

#include <gtest/gtest.h>

#include "scratch.h"

namespace ttap {
namespace {

constexpr std::string_view kPage = "<title>{{title}}</title><script>{{report}}</script>{{report}} {{title}}";

std::string text_of(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_file(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string page_of(std::string_view report, const std::string& title = "t") {
  const ScratchDirectory scratch;
  EXPECT_TRUE(write_page_of(kPage, report, title, scratch / "page.html").ok());
  return text_of(scratch / "page.html");
}

TEST(DiffPage, TakesTitleAndReportWhereEachStandsFirst) {
  EXPECT_EQ(page_of("{}", "A and B"), "<title>A and B</title><script>{}</script>{{report}} {{title}}");
}

TEST(DiffPage, KeepsTheReportFromEndingItsElement) {
  EXPECT_EQ(page_of("[\"</script><!--<b\"]"),
            "<title>t</title><script>[\"\\u003c/script>\\u003c!--\\u003cb\"]</script>{{report}} {{title}}");
}

TEST(DiffPage, WritesLineSeparatorsOfUnicodeAsEscapesAndLeavesOtherTextAlone) {
  EXPECT_EQ(page_of("[\"\xE2\x80\xA8 \xE2\x80\xA9 \xE2\x80\xA6 \xE2\"]"),
            "<title>t</title><script>[\"\\u2028 \\u2029 \xE2\x80\xA6 \xE2\"]</script>{{report}} {{title}}");
}

TEST(DiffPage, EscapesTheTitle) {
  EXPECT_TRUE(page_of("{}", "</title><b> & {{report}}").starts_with("<title>&lt;/title&gt;&lt;b&gt; &amp; {{report}}"));
}

TEST(DiffPage, ReplacesWhatIsThereOnceItIsWhole) {
  const ScratchDirectory scratch;
  write_file(scratch / "page.html", std::as_bytes(std::span("old")));
  ASSERT_TRUE(write_page_of(kPage, "{}", "new", scratch / "page.html").ok());
  EXPECT_TRUE(text_of(scratch / "page.html").starts_with("<title>new</title>"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 1) << "nothing is left beside it";
}

TEST(DiffPage, SaysWhereItCouldNotBeWritten) {
  const ScratchDirectory scratch;
  const Status status = write_page_of(kPage, "{}", "t", scratch / "no such folder/page.html");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kNotFound);
  EXPECT_NE(status.error().path.find("no such folder"), std::string::npos);
}

TEST(DiffPage, OfABuildWithoutPlotlySaysWhatToDo) {
  const ScratchDirectory scratch;
  const Status status = write_page_of("", "{}", "t", scratch / "page.html");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(status.error().describe().find("TTAP_PLOTLY_JS"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(scratch / "page.html"));
}

}  // namespace
}  // namespace ttap
