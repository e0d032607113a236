#include "capture/ops/op_log.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "scratch.h"
#include "ttap/run.h"

namespace ttap {
namespace {

// A source of two operators, by hand: b = relu(a), then add_(b, 1).
class OpLogTest : public ::testing::Test {
 protected:
  OpCall call(std::string_view name, OpKind kind = OpKind::kOp) {
    OpCall call;
    call.kind = kind;
    call.name = texts_.intern(name);
    call.level = Level::kFull;
    call.thread = 7;
    call.start_ns = 1000;
    call.end_ns = 1500;
    return call;
  }
  ShapedCall shaped(std::string_view name, std::initializer_list<OpShape> shapes) {
    ShapedCall call;
    call.name = texts_.intern(name);
    call.thread = 7;
    for (const OpShape& shape : shapes) call.shapes[call.count++] = shape;
    return call;
  }
  PlaceId place(std::string_view role, std::string_view path) {
    places_.push_back({texts_.intern(role), texts_.intern(path)});
    return static_cast<PlaceId>(places_.size() - 1);
  }
  MetaId meta(std::vector<int64_t> shape) {
    uint64_t bytes = 4;
    for (const int64_t size : shape) bytes *= static_cast<uint64_t>(size);
    metas_.push_back({.dtype = DType::kF32,
                      .device = texts_.intern("cpu"),
                      .shape = std::move(shape),
                      .strides = {},
                      .byte_count = bytes});
    return static_cast<MetaId>(metas_.size() - 1);
  }
  // Takes two floats as the value `value`, and uses it.
  void take(OpCall& call, PlaceId where, uint32_t value, Level level, const std::array<float, 2>& data) {
    const std::array<int64_t, 1> shape = {2};
    log_.take(call, {.place = where, .meta = two_, .value = value, .asked = level},
              {.view = {data.data(), DType::kF32, shape, {}}, .role = {}, .path = {}, .device = {}});
    call.uses.push_back({.place = where, .tensor = value, .value = value, .written = false});
  }
  Pass saved(const OpLog::SaveOptions& options = {}) {
    const auto directory = log_.save(scratch_.path(), options);
    EXPECT_TRUE(directory.ok()) << directory.error().describe();
    auto run = Run::open(*directory);
    auto pass = Pass::open(run->ranks.at(0).passes.at(0).path);
    EXPECT_TRUE(pass.ok());
    return std::move(*pass);
  }

  ScratchDirectory scratch_;
  TextTable texts_;
  std::deque<TensorMeta> metas_;
  std::deque<OpPlace> places_;
  OpLog log_{texts_, metas_, places_, {}};
  MetaId two_ = meta({2});
  PlaceId in_ = place("in", "/0");
  PlaceId out_ = place("out", "");
};

TEST_F(OpLogTest, SavesCallsWithTheirTensorsAndWhoMadeThem) {
  OpCall relu = call("m:aten::relu");
  log_.begin(relu);
  take(relu, in_, 1, Level::kFingerprint, {-1, 2});
  take(relu, out_, 2, Level::kFull, {0, 2});
  relu.arguments = texts_.intern("%0");
  relu.results = texts_.intern("%1");
  log_.end(relu);
  OpCall add = call("m:aten::add_.Tensor");
  log_.begin(add);
  add.uses.push_back({.place = in_, .tensor = 2, .value = 2, .written = true});
  log_.end(add);

  const Pass pass = saved();
  ASSERT_EQ(pass.event_count(), 2U);
  const EventRecord first = pass.event(0);
  EXPECT_EQ(first.name, "m:aten::relu");
  EXPECT_EQ(first.kind, "op");
  EXPECT_EQ(first.arguments, "%0");
  EXPECT_EQ(first.results, "%1");
  EXPECT_EQ(first.duration_ns, 500U);
  EXPECT_EQ(first.thread, 7U);
  ASSERT_EQ(pass.tensor_count(), 2U);
  EXPECT_FALSE(pass.tensor(0).has_bytes);
  EXPECT_EQ(pass.tensor(0).fingerprint.stats.min, -1);
  EXPECT_TRUE(pass.tensor(1).has_bytes);
  EXPECT_EQ(static_cast<const float*>(pass.read(1)->data)[1], 2.0F);
  // The argument of the second call is the result of the first.
  const UseRecord use = pass.use(1, 0);
  EXPECT_EQ(use.record, 1U);
  EXPECT_TRUE(use.written);
  EXPECT_EQ(pass.tensor(use.record).event, 0U);
}

TEST_F(OpLogTest, KeepsShapesAloneAsUsesAndTensors) {
  ShapedCall relu = shaped("aten::relu", {{in_, two_, 1}, {out_, two_, 2}});
  log_.begin_shaped(relu);
  log_.end_shaped(relu);
  const Pass pass = saved();
  ASSERT_EQ(pass.tensor_count(), 2U);
  EXPECT_EQ(log_.tensor_count(), 2U);
  EXPECT_EQ(pass.tensor(0).role, "in");
  EXPECT_EQ(pass.tensor(0).level, Level::kMeta);
  EXPECT_EQ(pass.tensor(1).shape.size(), 1U);
  EXPECT_EQ(pass.use(0, 1).record, 1U);
  EXPECT_FALSE(pass.use(0, 1).written);
}

TEST_F(OpLogTest, KeepsShapesAmongOtherCalls) {
  OpCall before = call("aten::mixed");
  log_.begin(before);
  before.uses.push_back({.place = in_, .tensor = 1, .value = 1, .written = false});
  before.tensors.push_back({.place = in_, .meta = two_, .value = 1});
  take(before, out_, 2, Level::kFingerprint, {3, 4});
  log_.end(before);
  ShapedCall after = shaped("aten::relu", {{in_, two_, 3}});
  log_.begin_shaped(after);
  log_.end_shaped(after);
  const Pass pass = saved();
  ASSERT_EQ(pass.tensor_count(), 3U);
  EXPECT_EQ(pass.tensor(0).role, "in");
  EXPECT_FALSE(pass.tensor(0).has_fingerprint);
  EXPECT_EQ(pass.tensor(1).fingerprint.stats.max, 4);
  EXPECT_EQ(pass.use(0, 1).record, 1U);
  EXPECT_EQ(pass.tensor(2).event, 1U);
}

TEST_F(OpLogTest, TwinsHaveOneFingerprint) {
  OpCall mm = call("aten::mm");
  log_.begin(mm);
  take(mm, out_, 1, Level::kFingerprint, {3, 4});
  log_.end(mm);
  OpCall view = call("aten::_unsafe_view");
  log_.begin(view);
  log_.take(view, {.place = out_, .meta = two_, .value = 2, .asked = Level::kFingerprint, .same_as = 1},
            {.view = {nullptr, DType::kF32, {}, {}}, .role = {}, .path = {}, .device = {}});
  log_.take(view, {.place = in_, .meta = two_, .value = 3, .asked = Level::kFingerprint, .same_as = 9},
            {.view = {nullptr, DType::kF32, {}, {}}, .role = {}, .path = {}, .device = {}});
  log_.end(view);
  log_.settle();
  const Pass pass = saved();
  ASSERT_EQ(pass.tensor_count(), 3U);
  EXPECT_EQ(pass.tensor(1).fingerprint.hash, pass.tensor(0).fingerprint.hash);
  EXPECT_EQ(pass.tensor(1).level, Level::kFingerprint);
  EXPECT_FALSE(pass.tensor(2).has_fingerprint);  // nobody has value 9
  EXPECT_EQ(log_.lost_fingerprints(), 1U);
}

TEST_F(OpLogTest, OrdersCallsByTheirBeginning) {
  OpCall module = call("m", OpKind::kModule);
  log_.begin(module);
  OpCall inner = call("m:aten::mm");
  inner.parent = module.number;
  log_.begin(inner);
  log_.end(inner);
  log_.end(module);

  const Pass pass = saved();
  EXPECT_EQ(pass.event(0).name, "m");
  EXPECT_EQ(pass.event(0).kind, "module");
  EXPECT_EQ(pass.event(1).parent, 0U);
}

TEST_F(OpLogTest, NumbersTheCallsOfAName) {
  for (int i = 0; i < 3; ++i) {
    OpCall mm = call("aten::mm");
    log_.begin(mm);
    log_.end(mm);
  }
  const Pass pass = saved();
  EXPECT_EQ(pass.event(2).call, 3U);
}

TEST_F(OpLogTest, CountsWhatWasUnderWay) {
  OpCall lost = call("aten::hangs");
  log_.begin(lost);
  OpCall child = call("aten::mm");
  child.parent = lost.number;
  log_.begin(child);
  log_.end(child);

  EXPECT_EQ(log_.under_way(), 1U);
  const Pass pass = saved({.dropped_events = 5});
  EXPECT_EQ(pass.event_count(), 1U);
  EXPECT_EQ(pass.event(0).parent, kNoEvent);
  EXPECT_EQ(pass.info().drops.events, 6U);
}

TEST_F(OpLogTest, KnowsWhenItIsFull) {
  OpLog small(texts_, metas_, places_, {.limit_bytes = 200});
  while (!small.full()) {
    OpCall mm = call("aten::mm");
    small.begin(mm);
    small.end(mm);
  }
  EXPECT_LE(small.size(), 4U);
}

TEST_F(OpLogTest, TakesAFingerprintThatIsKnownForGranted) {
  OpCall view = call("aten::view");
  log_.begin(view);
  Fingerprint known;
  known.hash = {1, 2};
  log_.take(view, {.place = out_, .meta = two_, .value = 1, .asked = Level::kFingerprint},
            {.view = {}, .role = {}, .path = {}, .device = {}, .known = &known});
  log_.end(view);
  EXPECT_EQ(saved().tensor(0).fingerprint.hash, known.hash);
}

TEST_F(OpLogTest, WritesStacksByTheirNumber) {
  OpCall mm = call("aten::mm");
  mm.stack = 2;
  log_.begin(mm);
  log_.end(mm);
  EXPECT_EQ(saved({.stacks = {"one", "two"}}).event(0).stack, "two");
}

TEST_F(OpLogTest, AppendedToARunItIsTheNextPass) {
  OpCall mm = call("aten::mm");
  log_.begin(mm);
  log_.end(mm);
  (void)saved();
  const auto directory = log_.save(scratch_.path(), {.append = true});
  ASSERT_TRUE(directory.ok());
  EXPECT_EQ(Run::open(*directory)->ranks.at(0).passes.size(), 2U);
}

}  // namespace
}  // namespace ttap
