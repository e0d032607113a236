#include <gtest/gtest.h>

#include "scratch.h"
#include "ttap/diff.h"
#include "ttap/recorder.h"

namespace ttap {
namespace {

// Three operators that each take what the one before made; the second is off by `error`.
void record(const std::filesystem::path& directory, float error) {
  auto recorder = Recorder::create({.directory = directory}).value();
  float value = 1;
  for (const char* name : {"first", "second", "third"}) {
    const Event event = recorder->begin_event({.name = name});
    const TensorView view{&value, DType::kF32, {}, {}};
    recorder->capture(event, view, {.role = "in"});
    value = value * 2 + (std::string_view(name) == "second" ? error : 0);
    recorder->capture(event, view);
    recorder->end_event(event, {});
  }
  ASSERT_TRUE(recorder->close().ok());
}

TEST(PublicDiff, NamesTheOperatorThatWentWrongFirst) {
  const ScratchDirectory scratch;
  record(scratch / "a", 0);
  record(scratch / "b", 0.5f);
  auto diff = Diff::compare(scratch / "a", scratch / "b");
  ASSERT_TRUE(diff.ok()) << diff.error().describe();
  EXPECT_EQ(diff->verdict(), Verdict::kDiverged);
  EXPECT_EQ(diff->sentence().find("diverged: second introduced the error"), 0u) << diff->sentence();
  EXPECT_FALSE(diff->same().value());
  EXPECT_TRUE(diff->same({"max_abs>2"}).value());
  EXPECT_FALSE(diff->same({"not a predicate"}).ok());
  EXPECT_EQ(diff->tensor_count(), 6u);
  ASSERT_TRUE(diff->first());
  const DiffedTensor first = diff->tensor(*diff->first());
  EXPECT_EQ(first.key_a, "second");
  EXPECT_EQ(first.key_b, "second");
  EXPECT_EQ(first.cause, Cause::kIntroduced);
  EXPECT_EQ(first.max_abs, 0.5);
  EXPECT_EQ(first.relative, 0.125);
  EXPECT_EQ(diff->tensor(5).cause, Cause::kInherited);
  EXPECT_NE(diff->text().find("second"), std::string::npos);
  EXPECT_EQ(diff->json().front(), '{');
  const Status page = diff->write_page(scratch / "page.html");  // which a build without Plotly cannot make
  EXPECT_EQ(std::filesystem::exists(scratch / "page.html"), page.ok());
  EXPECT_TRUE(page.ok() || page.error().code == ErrorCode::kUnsupported);
}

TEST(PublicDiff, ComparesOnlyWhatIsWanted) {
  const ScratchDirectory scratch;
  record(scratch / "a", 0);
  record(scratch / "b", 0.5f);
  const auto of_first = Diff::compare(scratch / "a", scratch / "b",
                                      {.wanted = [](std::string_view key) { return key.starts_with("first"); }});
  ASSERT_TRUE(of_first.ok());
  EXPECT_EQ(of_first->tensor_count(), 2u);
  EXPECT_TRUE(of_first->same().value());
  EXPECT_FALSE(of_first->first());
  const auto both =
      Diff::compare(scratch / "a", scratch / "b",
                    {.filter = "@in", .wanted = [](std::string_view key) { return key.starts_with("first"); }});
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->tensor_count(), 1u);
  EXPECT_FALSE(Diff::compare(scratch / "a", scratch / "b", {.wanted = [](std::string_view) { return false; }}).ok());
}

}  // namespace
}  // namespace ttap
