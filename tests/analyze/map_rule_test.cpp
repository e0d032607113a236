#include "analyze/diff/match/map_rule.h"

#include <gtest/gtest.h>

#include <cstring>

#include "alignment.h"
#include "analyze/diff/sides/made_value.h"
#include "core/logical_copy.h"

namespace ttap {
namespace {

using test::Lines;
using test::MemorySide;

// The tensor of A, or what its value is made of, and that of B.
Lines mapped(const MemorySide& a, const MemorySide& b, const std::string& yaml) {
  const auto map = NameMap::parse(yaml, "map.yaml");
  if (!map.ok()) return {map.error().describe()};
  const auto text = [](const Side& side, uint32_t tensor, const MadeValue* value) {
    if (tensor == kNoTensor) return std::string("-");
    return value != nullptr ? made_text(side, *value) : to_string(side.tensor(tensor).key());
  };
  Lines lines;
  for (const Match& match : align(a, b, {.map = &*map, .structure = false}))
    lines.push_back((match.dropped ? "dropped: " : "") + text(a, match.a, match.made_a.get()) + " | " +
                    text(b, match.b, match.made_b.get()));
  if (!map->status().ok()) return {map->status().error().message};
  return lines;
}

const MemorySide kFused{{"0.qkv", {2, 12}}}, kParts{{"0.q", {2, 4}}, {"0.k", {2, 4}}, {"0.v", {2, 4}}};

TEST(MapRule, ASliceIsTakenFromEitherSide) {
  EXPECT_EQ(mapped(kParts, kFused, "- slice: {a: '(.+)\\.k$', of: '$1.qkv', at: '[..., 4:8]'}"),
            (Lines{"0.q | -", "0.k | 0.qkv[..., 4:8]", "0.v | -"}));
  EXPECT_EQ(mapped(kFused, kParts, "- slice: {b: '(.+)\\.k$', of: '$1.qkv', at: '[:, -8:-4]'}"),
            (Lines{"- | 0.q", "0.qkv[..., 4:8] | 0.k", "- | 0.v"}));
  EXPECT_EQ(mapped(kParts, kFused, "- slice: {a: '(.+)\\.k$', of: '$1.qkv', at: '[..., 1::3]'}")[1],
            "0.k | 0.qkv[..., 1:11:3]");
}

TEST(MapRule, SeveralAreOneOrSummed) {
  EXPECT_EQ(mapped(kFused, kParts, "- concat: {a: '(.+)\\.qkv$', of: ['$1.q', '$1.k', '$1.v'], dim: -1}"),
            Lines{"0.qkv | cat(0.q, 0.k, 0.v, dim=-1)"});
  EXPECT_EQ(mapped(kParts, kFused, "- concat: {b: '(.+)\\.qkv$', of: ['$1.q', '$1.k', '$1.v'], dim: 1}"),
            Lines{"cat(0.q, 0.k, 0.v, dim=-1) | 0.qkv"});
  EXPECT_EQ(mapped({{"x"}}, {{"x/0"}, {"x/1"}}, "- sum: {a: '^x$', of: ['x/0', 'x/1']}"), Lines{"x | x/0 + x/1"});
}

TEST(MapRule, AxesAreTurnedAfterTheSlice) {
  const MemorySide b{{"w", {12, 2}}};
  EXPECT_EQ(mapped({{"v", {2, 4}}}, b, "- slice: {a: v, of: w, at: '[0:4]', dims: [1, 0]}"),
            Lines{"v | w[0:4].permute(1, 0)"});
  EXPECT_EQ(mapped({{"v", {2, 12}}}, b, "- transpose: {a: v, of: w}"), Lines{"v | w.permute(1, 0)"});
  EXPECT_EQ(mapped({{"v", {4, 3, 2}}}, b, "- reshape: {a: v, of: w, shape: [4, -1, 2]}"),
            Lines{"v | w.reshape(4, 3, 2)"});
  // What does nothing is no step: the two are compared as they are, also by fingerprints.
  EXPECT_EQ(mapped({{"v", {12, 2}}}, b, "- slice: {a: v, of: w, at: '[0:12]'}"), Lines{"v | w"});
}

TEST(MapRule, ARuleWinsOverEqualKeys) {
  const MemorySide both{{"x"}, {"y"}};
  EXPECT_EQ(mapped(both, both, "- transpose: {a: '^x$', of: y}"), (Lines{"- | x", "x | y", "y | -"}));
  EXPECT_EQ(mapped(both, both, "- '^x$': z\n"), (Lines{"- | x", "x | -", "y | y"}));
  EXPECT_EQ(mapped(both, both, "- drop: {b: '^x$'}"), (Lines{"dropped: - | x", "x | -", "y | y"}));
  EXPECT_EQ(mapped(both, both, "- drop: {a: x, b: x}"), (Lines{"dropped: - | x", "dropped: x | -", "y | y"}));
}

TEST(MapRule, RowsOfTokensHaveTheAxesThatWereRecorded) {
  const auto rule = [](const std::string& fields) {
    const auto lines = parse_rules("- slice: {a: x, of: y, " + fields + "}", "map.yaml", RuleValues::kTextsAndMaps);
    return MapRule::parse(lines->front());
  };
  // [requests, heads, tokens, 8], of which 15 rows of 32 were made.
  const RecordedRows rows{.shape = {2, 4, 9, 8}, .of_tokens = {true, false, true, false}};
  const auto sliced = rule("at: '[:, 1:3]', dims: [0, 2, 3, 1]")->steps_for({15, 32}, rows);
  ASSERT_TRUE(sliced.ok()) << sliced.error().describe();
  EXPECT_EQ(sliced->steps, (std::vector<ValueStep>{{.kind = ValueStep::Kind::kReshape, .numbers = {15, 4, 8}},
                                                   {.axis = -2, .numbers = {1, 2}},
                                                   {.kind = ValueStep::Kind::kPermute, .numbers = {0, 2, 1}}}));
  const auto tokens = rule("at: '[:, :, 1:3]'")->steps_for({15, 32}, rows);
  ASSERT_FALSE(tokens.ok());
  EXPECT_NE(tokens.error().message.find("axis 2 is that of the tokens"), std::string::npos) << tokens.error().message;
  const auto moved = rule("at: '[..., :]', dims: [0, 2, 1, 3]")->steps_for({15, 32}, rows);
  ASSERT_TRUE(moved.ok());
  EXPECT_EQ(shape_after({15, 32}, moved->steps).value(), (std::vector<int64_t>{15, 4, 8}));
}

// ---- values ----

// Named tensors of f32, counting up from 0.
class CountingSide final : public Side {
 public:
  explicit CountingSide(std::vector<std::pair<std::string, std::vector<int64_t>>> tensors)
      : tensors_(std::move(tensors)) {}
  size_t tensor_count() const override { return tensors_.size(); }
  TensorRecord tensor(size_t index) const override {
    TensorRecord record;
    record.name = tensors_[index].first;
    record.role = "out";
    record.dtype = DType::kF32;
    record.shape = tensors_[index].second;
    record.has_bytes = true;
    return record;
  }
  size_t event_count() const override { return 0; }
  EventRecord event(size_t) const override { return {}; }
  Result<SideBytes> read(size_t index) const override {
    SideBytes bytes{.shape = tensors_[index].second};
    const uint64_t count = element_count({.shape = bytes.shape});
    bytes.decoded.resize(count * sizeof(float));
    for (uint64_t i = 0; i < count; ++i) {
      const auto value = static_cast<float>(i);
      std::memcpy(bytes.decoded.data() + i * sizeof value, &value, sizeof value);
    }
    bytes.view = {bytes.decoded.data(), DType::kF32, bytes.shape, {}};
    return bytes;
  }
  const PassInfo& info() const override { return info_; }
  std::string place() const override { return "made by hand"; }

 private:
  std::vector<std::pair<std::string, std::vector<int64_t>>> tensors_;
  PassInfo info_;
};

std::vector<float> floats_of(const SideBytes& bytes) {
  const LogicalCopy copy(bytes.view);
  std::vector<float> found(copy.elements());
  copy.copy(0, copy.elements(), found.data());
  return found;
}

constexpr auto kPermute = ValueStep::Kind::kPermute;
constexpr auto kReshape = ValueStep::Kind::kReshape;

TEST(MadeValue, EveryStepAndTheElementsItCameFrom) {
  const CountingSide side({{"x", {2, 3, 4}}});
  for (const std::vector<ValueStep>& steps : std::vector<std::vector<ValueStep>>{
           {},
           {{.axis = -1, .numbers = {1, 2}}},
           {{.axis = 0, .numbers = {1}}},
           {{.axis = 1, .numbers = {0, 2}}},
           {{.axis = 2, .numbers = {3, 0, 1}}},
           {{.kind = kPermute, .numbers = {2, 0, 1}}},
           {{.kind = kReshape, .numbers = {6, 4}}, {.kind = kPermute, .numbers = {1, 0}}},
           {{.kind = kPermute, .numbers = {1, 2, 0}}, {.kind = kReshape, .numbers = {4, 6}}, {.numbers = {3, 1}}}}) {
    const MadeValue made{{{0, steps}}};
    const auto bytes = read_made(side, 0, &made);
    ASSERT_TRUE(bytes.ok()) << bytes.error().describe();
    EXPECT_EQ(std::vector<int64_t>(bytes->view.shape.begin(), bytes->view.shape.end()),
              shape_of_made(side, made).value());
    const std::vector<float> found = floats_of(*bytes);
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(sources_of(side, 0, &made, i),
                (std::vector<std::pair<uint32_t, uint64_t>>{{0, static_cast<uint64_t>(found[i])}}))
          << made_text(side, made) << " at " << i;
  }
}

TEST(MadeValue, ElementsOfAConcatenationAreThoseOfItsParts) {
  const CountingSide side({{"x", {2, 3}}, {"y", {2, 2}}});
  const MadeValue made{{{0}, {1}}, MadeValue::Join::kConcat, 1};
  EXPECT_EQ(floats_of(read_made(side, 0, &made).value()), (std::vector<float>{0, 1, 2, 0, 1, 3, 4, 5, 2, 3}));
  EXPECT_EQ(sources_of(side, 0, &made, 7), (std::vector<std::pair<uint32_t, uint64_t>>{{0, 5}}));
  EXPECT_EQ(sources_of(side, 0, &made, 8), (std::vector<std::pair<uint32_t, uint64_t>>{{1, 2}}));
}

TEST(MadeValue, ShapesThatDoNotFitAreErrors) {
  const CountingSide side({{"x", {2, 3}}, {"y", {2, 2}}});
  for (const MadeValue& made : {MadeValue{{{0}, {1}}, MadeValue::Join::kSum},
                                MadeValue{{{0}, {1}}, MadeValue::Join::kConcat, 0},
                                MadeValue{{{0, {{.axis = 2, .numbers = {0}}}}}},
                                MadeValue{{{0, {{.axis = 1, .numbers = {3}}}}}},
                                MadeValue{{{0, {{.kind = kReshape, .numbers = {4}}}}}},
                                MadeValue{{{0, {{.kind = kPermute, .numbers = {1, 1}}}}}}}) {
    EXPECT_FALSE(shape_of_made(side, made).ok()) << made_text(side, made);
    EXPECT_FALSE(read_made(side, 0, &made).ok());
  }
}

}  // namespace
}  // namespace ttap
