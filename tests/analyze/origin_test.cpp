#include "analyze/check/origin.h"

#include <gtest/gtest.h>

#include <limits>

#include "linked_ops.h"
#include "not_finite.h"
#include "scratch.h"

namespace ttap {
namespace {

using test::LinkedOps;
using Value = LinkedOps::Value;
constexpr auto of = &LinkedOps::of;
constexpr auto outside = &LinkedOps::outside;
constexpr auto unrecorded = &LinkedOps::unrecorded;
constexpr auto written = &LinkedOps::written;

class OriginTest : public testing::Test {
 protected:
  void SetUp() override { writer_.emplace(scratch_.path(), 0); }

  const Pass& pass() {
    if (!pass_) {
      auto opened = Pass::open(writer_->finish());
      TTAP_CHECK(opened.ok());
      pass_.emplace(std::move(opened).value());
      origins_ = find_origins(*pass_);
    }
    return *pass_;
  }
  const Origins& origins() { return pass(), origins_; }
  std::string_view op_of(const Origin& origin) { return pass().event(origin.event).name; }

  // What a user hears of first.
  const Origin& first() {
    const auto number = origins().first_of(find_nonfinite(pass()).found);
    TTAP_CHECK(number.has_value());
    return origins().all()[*number];
  }

  ScratchDirectory scratch_;
  std::optional<test::SamplePass> writer_;
  LinkedOps& ops() {
    if (!ops_) ops_.emplace(*writer_);
    return *ops_;
  }

 private:
  std::optional<LinkedOps> ops_;
  std::optional<Pass> pass_;
  Origins origins_;
};

TEST_F(OriginTest, IsTheOpThatMadeItFromFiniteArguments) {
  const Value x = ops().call({"aten::sub", {outside({1, 2}), outside({1, 3})}}, {0, -1});
  const Value y = ops().call({"aten::log", {of(x)}}, {-kInf, kNan});
  ops().call({"aten::relu", {of(y)}}, {0, kNan});
  ASSERT_EQ(origins().all().size(), 1u);
  EXPECT_EQ(first().kind, OriginKind::kMade);
  EXPECT_EQ(op_of(first()), "aten::log");
  EXPECT_EQ(first().tensor, y.record);
  EXPECT_TRUE(first().nan);
}

TEST_F(OriginTest, ThoseThatInheritAreCountedAndNameIt) {
  const Value bad = ops().call({"aten::log", {outside({-1})}}, {kNan});
  const Value heir = ops().call({"aten::exp", {of(bad)}}, {kNan});
  const Value clean = ops().call({"aten::relu", {outside({1})}}, {1});
  const Value late = ops().call({"aten::add", {of(heir), of(clean)}}, {kNan});
  EXPECT_EQ(first().heirs, 2u);
  EXPECT_EQ(origins().descent(late.record).nan, 0u);
  EXPECT_FALSE(origins().descent(clean.record).nan);
  EXPECT_TRUE(origins().arose_in(bad.record));
  EXPECT_FALSE(origins().arose_in(late.record));
}

TEST_F(OriginTest, OneOpWithSeveralResultsIsOneOrigin) {
  const auto made = ops().calls({"aten::native_layer_norm", {outside({1, 1})}}, {{kNan, kNan}, {1}, {kInf}});
  ASSERT_EQ(origins().all().size(), 1u);
  EXPECT_EQ(first().heirs, 0u);
  EXPECT_TRUE(origins().arose_in(made[2].record));
}

TEST_F(OriginTest, AnArgumentFromOutsideThatIsNotFiniteIsTheOrigin) {
  ops().call({"aten::mm", {outside({1, 2}), outside({kNan, 1})}}, {kNan, 3});
  ASSERT_EQ(origins().all().size(), 1u);
  EXPECT_EQ(first().kind, OriginKind::kCameIn);
  EXPECT_EQ(op_of(first()), "aten::mm");
  EXPECT_EQ(pass().tensor(first().tensor).path, "/1");
  EXPECT_EQ(first().heirs, 1u);
}

TEST_F(OriginTest, WithAnArgumentThatWasNotRecordedItIsUnknown) {
  const Value x = ops().call({"aten::relu", {outside({1})}}, {1});
  ops().call({"aten::mm", {of(x), unrecorded()}}, {kNan});
  EXPECT_EQ(first().kind, OriginKind::kUnknown);
  EXPECT_EQ(op_of(first()), "aten::mm");
}

TEST_F(OriginTest, AnUnrecordedArgumentDoesNotHideAKnownOne) {
  const Value bad = ops().call({"aten::log", {outside({-1})}}, {kNan});
  ops().call({"aten::mm", {of(bad), unrecorded()}}, {kNan});
  ASSERT_EQ(origins().all().size(), 1u);
  EXPECT_EQ(first().kind, OriginKind::kMade);
}

TEST_F(OriginTest, AnInfiniteLiteralIsOnPurposeAndTheNextOriginCounts) {
  const Value mask = ops().call({"aten::full", {}, "[2], -inf"}, {-kInf, -kInf});
  const Value shown = ops().call({"aten::add", {outside({1, 2}), of(mask)}}, {-kInf, -kInf});
  const Value bad = ops().call({"aten::sqrt", {outside({-1})}}, {kNan});
  ASSERT_EQ(origins().all().size(), 2u);
  EXPECT_EQ(origins().all()[0].kind, OriginKind::kOnPurpose);
  EXPECT_EQ(origins().descent(shown.record).inf, 0u);
  EXPECT_EQ(first().tensor, bad.record);
}

TEST_F(OriginTest, ANumberThatIsPutIntoATensorIsOnPurpose) {
  const Value mask = ops().call({"aten::zeros", {}, "[2]"}, {0, 0});
  const Value part = ops().call({"aten::select.int", {of(mask)}}, {0});
  const Value number = ops().call({"aten::lift_fresh", {{.outside = {-kInf}, .number = true}}}, {-kInf});
  ops().call({"aten::copy_", {written(part), of(number)}}, {-kInf});
  EXPECT_EQ(origins().all().size(), 1u);
  EXPECT_EQ(first().kind, OriginKind::kOnPurpose);
}

TEST_F(OriginTest, ANanThatIsANumberFromOutsideCameIn) {
  ops().call({"aten::lift_fresh", {{.outside = {kNan}, .number = true}}}, {kNan});
  EXPECT_EQ(first().kind, OriginKind::kCameIn);
}

TEST_F(OriginTest, ATensorThatWasChangedThroughAViewKeepsItsOrigin) {
  const Value mask = ops().call({"aten::full", {}, "[2], -inf"}, {-kInf, -kInf});
  const Value part = ops().call({"aten::select.int", {of(mask)}}, {-kInf});
  ops().call({"aten::zero_", {written(part)}}, {0});
  ops().call({"aten::neg", {{.value = mask, .outside = {0, -kInf}, .again = true}}}, {0, kInf});
  EXPECT_EQ(origins().all().size(), 1u);
  EXPECT_EQ(first().kind, OriginKind::kOnPurpose);
}

TEST_F(OriginTest, OnlyAMaskIsStillTold) {
  ops().call({"aten::full", {}, "[1], -inf"}, {-kInf});
  EXPECT_EQ(first().kind, OriginKind::kOnPurpose);
  EXPECT_FALSE(first().is_fault());
}

TEST_F(OriginTest, NanMadeOfInfIsANewOriginThatNamesWhereTheInfCameFrom) {
  const Value mask = ops().call({"aten::full", {}, "[1], -inf"}, {-kInf});
  const Value shown = ops().call({"aten::expand", {of(mask)}}, {-kInf, -kInf});
  const Value bad = ops().call({"attn:aten::_softmax", {of(shown)}, ", -1, False"}, {kNan, kNan});
  const Value heir = ops().call({"aten::mm", {of(bad), outside({1})}}, {kNan});
  EXPECT_EQ(first().kind, OriginKind::kNanFromInf);
  EXPECT_EQ(first().tensor, bad.record);
  EXPECT_EQ(first().inf_from, 0u);
  EXPECT_EQ(origins().all()[0].became_nan, 1u);
  EXPECT_EQ(origins().descent(heir.record).nan, 1u);
}

TEST_F(OriginTest, InfThatWasMadeComesBeforeTheNanItBecame) {
  const Value big = ops().call({"aten::exp", {outside({1000})}}, {kInf});
  ops().call({"aten::sub", {of(big), of(big)}}, {kNan});
  EXPECT_EQ(op_of(first()), "aten::exp");
  ASSERT_TRUE(first().became_nan);
  EXPECT_EQ(op_of(origins().all()[*first().became_nan]), "aten::sub");
}

TEST_F(OriginTest, InfThatIsUsedUpIsHarmless) {
  const Value big = ops().call({"aten::log", {outside({0, 1})}}, {-kInf, 0});
  ops().call({"aten::exp", {of(big)}}, {0, 1});
  const Value bad = ops().call({"aten::sqrt", {outside({-1})}}, {kNan});
  EXPECT_TRUE(origins().all()[0].harmless);
  EXPECT_EQ(first().tensor, bad.record);
}

TEST_F(OriginTest, InfThatIsReturnedIsNotHarmless) {
  const Value big = ops().call({"aten::log", {outside({0, 1})}}, {-kInf, 0});
  ops().call({"aten::exp", {of(big)}}, {0, 1});
  ops().call({"aten::neg", {of(big)}}, {kInf, 0});
  EXPECT_FALSE(origins().all()[0].harmless);
}

TEST_F(OriginTest, InfThatOnlyViewsUsedIsNotHarmless) {
  const Value big = ops().call({"aten::div", {outside({1, 1}), outside({0, 1})}}, {kInf, 1});
  ops().passes_on("aten::detach", big);
  const Value part = ops().call({"aten::slice.Tensor", {of(big)}}, {1});
  ops().call({"aten::unsqueeze", {of(part)}}, {1});
  ops().call({"aten::sqrt", {outside({-1})}}, {kNan});
  EXPECT_FALSE(origins().all()[0].harmless);
  EXPECT_EQ(op_of(first()), "aten::div");
}

TEST_F(OriginTest, InfThatIsUsedUpThroughViewsIsHarmless) {
  const Value big = ops().call({"aten::log", {outside({0, 1})}}, {-kInf, 0});
  ops().passes_on("aten::detach", big);
  const Value row = ops().call({"aten::unsqueeze", {of(big)}}, {-kInf, 0});
  ops().call({"aten::exp", {of(row)}}, {0, 1});
  EXPECT_TRUE(first().harmless);
}

TEST_F(OriginTest, InfThatAComputationLeavesAsideIsHarmless) {
  const Value big = ops().call({"aten::log", {outside({0, 1})}}, {-kInf, 0});
  const Value part = ops().call({"aten::slice.Tensor", {of(big)}}, {0});
  ops().call({"aten::neg", {of(part)}}, {0});
  EXPECT_TRUE(first().harmless);
}

TEST_F(OriginTest, OfTwoInfsInOneResultNoneIsHarmless) {
  const Value one = ops().call({"aten::exp", {outside({1000})}}, {kInf});
  const Value two = ops().call({"aten::cosh", {outside({1000})}}, {kInf});
  const Value copy = ops().call({"aten::clone", {of(two)}}, {kInf});
  ops().call({"aten::add.Tensor", {of(one), of(copy)}}, {kInf});
  ASSERT_EQ(origins().all().size(), 2u);
  EXPECT_FALSE(origins().all()[0].harmless);
  EXPECT_FALSE(origins().all()[1].harmless);
}

TEST_F(OriginTest, AMaskIsNotBlamedForTheNanBesideIt) {
  const Value mask = ops().call({"aten::log", {outside({0, 1})}}, {-kInf, 0});
  const Value bad = ops().call({"aten::sqrt", {outside({-1, -1})}}, {kNan, kNan});
  const Value sum = ops().call({"aten::cat", {of(bad), of(mask)}}, {kNan, kNan, -kInf, 0});
  ops().call({"aten::_softmax", {of(sum)}}, {kNan, kNan, kNan, kNan});
  EXPECT_TRUE(origins().all()[0].harmless);
  EXPECT_EQ(first().tensor, bad.record);
}

TEST_F(OriginTest, InfThatWasWrittenOverIsHarmless) {
  const Value big = ops().call({"aten::exp", {outside({1000})}}, {kInf});
  ops().call({"aten::log.out", {outside({0}), {.value = big, .written = true, .path = "/out"}}}, {-kInf});
  ASSERT_EQ(origins().all().size(), 2u);
  EXPECT_TRUE(origins().all()[0].harmless);
  EXPECT_EQ(op_of(first()), "aten::log.out");
}

TEST_F(OriginTest, UninitialisedMemoryThatIsWrittenIsNoOrigin) {
  const Value memory = ops().call({"aten::empty.memory_format", {}, "[2]"}, {kNan, kInf});
  const Value part = ops().call({"aten::slice.Tensor", {of(memory)}}, {kNan, kInf});
  ops().call({"aten::copy_", {written(part), outside({1, 2})}}, {1, 2});
  ops().call({"aten::log.out", {outside({1, 2}), {.value = memory, .written = true, .path = "/out"}}}, {0, 1});
  for (const Origin& origin : origins().all()) EXPECT_FALSE(origin.is_fault());
}

TEST_F(OriginTest, WhatStoodInAnOverwrittenArgumentDoesNotMatter) {
  const Value memory = ops().call({"aten::empty.memory_format", {}, "[1]"}, {kNan});
  ops().call({"aten::log.out", {outside({-1}), {.value = memory, .written = true, .path = "/out"}}}, {kNan});
  EXPECT_EQ(first().kind, OriginKind::kMade);
  EXPECT_EQ(op_of(first()), "aten::log.out");
}

TEST_F(OriginTest, AKernelIsNotBlamedForTheMemoryItWritesTo) {
  const Value memory = ops().call({"aten::empty_strided", {}, "[1], [1]"}, {kNan});
  ops().call({.name = "triton::triton_poi_0", .in = {outside({-1}), written(memory)}, .kind = "kernel"}, {kNan});
  EXPECT_EQ(first().kind, OriginKind::kMade);
  EXPECT_EQ(op_of(first()), "triton::triton_poi_0");
}

TEST_F(OriginTest, AReadOfUninitialisedMemoryIsAFault) {
  const Value memory = ops().call({"aten::empty_like", {outside({1})}}, {kNan});
  const Value part = ops().call({"aten::view", {of(memory)}}, {kNan});
  const Value read = ops().call({"aten::add.Tensor", {of(part), outside({1})}}, {kNan});
  EXPECT_EQ(first().kind, OriginKind::kUninitialised);
  EXPECT_TRUE(first().is_fault());
  EXPECT_EQ(first().first_reader, read.record);
}

TEST_F(OriginTest, AnInPlaceOpInheritsWhatItLeavesAlone) {
  const Value bad = ops().call({"aten::log", {outside({-1, 1})}}, {kNan, 0});
  ops().call({"aten::add_.Tensor", {written(bad), outside({1, 1})}}, {kNan, 1});
  ASSERT_EQ(origins().all().size(), 1u);
}

TEST_F(OriginTest, ARecordBesideTheFlowIsKnownByItsBytes) {
  const Value bad = ops().call({"layer:aten::log", {outside({-1, 5})}}, {kNan, 2});
  const uint32_t module = writer_->event("layer");
  writer_->tensor("layer", {2}, std::vector<float>{kNan, 2}, {.event = module});
  ASSERT_EQ(origins().all().size(), 1u);
  EXPECT_EQ(origins().descent(bad.record + 1).nan, 0u);
}

TEST_F(OriginTest, OfAFilteredSetItIsWhatTheseDescendFrom) {
  const Value early = ops().call({"a:aten::log", {outside({-1})}}, {kNan});
  const Value other = ops().call({"b:aten::sqrt", {outside({-4})}}, {kNan});
  const Value heir = ops().call({"c:aten::exp", {of(other)}}, {kNan});
  const auto found = find_nonfinite(pass(), {.wanted = [](const TensorRecord& t) { return t.name == "c:aten::exp"; }});
  ASSERT_EQ(found.found.size(), 1u);
  EXPECT_EQ(found.found[0].tensor, heir.record);
  EXPECT_EQ(origins().all()[*origins().first_of(found.found)].tensor, other.record);
  EXPECT_EQ(first().tensor, early.record);
}

TEST_F(OriginTest, AModuleRecordingTellsNoUses) {
  writer_->tensor("layer", {1}, std::vector<float>{kNan});
  EXPECT_FALSE(has_uses(pass()));
}

}  // namespace
}  // namespace ttap
