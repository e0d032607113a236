#include "analyze/diff/sides/side.h"

#include <gtest/gtest.h>

#include "sample_run.h"
#include "scratch.h"

namespace ttap {
namespace {

TEST(Side, OneRankIsItsPass) {
  const ScratchDirectory scratch;
  test::SamplePass writer(scratch.path(), 3);
  const uint32_t event = writer.event("mlp");
  writer.tensor("mlp", {2}, std::vector<float>{1, 2}, {.event = event});
  writer.tensor("mlp", {1}, std::vector<float>{1}, {.role = "in", .level = Level::kFingerprint});
  auto pass = Pass::open(writer.finish());
  ASSERT_TRUE(pass.ok());

  const auto side = make_side(std::move(pass).value(), 2);
  EXPECT_EQ(side->place(), "rank 2, pass 3");
  EXPECT_EQ(side->info().number, 3u);
  ASSERT_EQ(side->event_count(), 1u);
  EXPECT_EQ(side->event(0).name, "mlp");
  ASSERT_EQ(side->tensor_count(), 2u);
  EXPECT_EQ(side->tensor(1).role, "in");
  EXPECT_EQ(side->note(0), "");
  EXPECT_TRUE(side->ranks_of(0, 0).empty());

  const auto bytes = side->read(0);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(static_cast<const float*>(bytes->view.data)[1], 2);
  const auto none = side->read(1);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kNotRecorded);
}

TEST(Side, AFileOfSomebodyElseIsCalledByItsName) {
  const ScratchDirectory scratch;
  test::SamplePass writer(scratch.path(), 3);
  writer.tensor("x", {2}, std::vector<float>{1, 2});
  auto pass = Pass::open(writer.finish());
  ASSERT_TRUE(pass.ok());
  const auto exported = export_pass(*pass, Format::kSafetensors, scratch.path());
  ASSERT_TRUE(exported.ok());
  const auto other = scratch / "model.safetensors";
  std::filesystem::rename(exported->path, other);
  auto foreign = Pass::open(other);
  ASSERT_TRUE(foreign.ok());
  EXPECT_EQ(make_side(std::move(foreign).value(), 0)->place(), "model.safetensors");
}

}  // namespace
}  // namespace ttap
