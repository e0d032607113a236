#include "ttap/group.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "core/crc32c.h"
#include "format/frame.h"
#include "sample_groups.h"
#include "scratch.h"

namespace ttap {
namespace {

using test::decoded_weight;
using test::sample_description;
using test::write_groups;

size_t index_of(const Pass& pass, const std::string& key) {
  const auto found = pass.find(*parse_key(key));
  EXPECT_TRUE(found) << key;
  return found.value_or(0);
}

std::vector<float> floats_of(const TensorView& view) {
  std::vector<float> values(element_count(view));
  std::memcpy(values.data(), view.data, values.size() * sizeof(float));
  return values;
}

TEST(Groups, AreReadBackAtTheirRowsAndNowhereElse) {
  const ScratchDirectory scratch;
  const auto pass = Pass::open(write_groups(scratch.path()));
  ASSERT_TRUE(pass.ok()) << pass.error().describe();
  EXPECT_EQ(pass->info().problem, "");
  std::vector<std::string> quantized;
  for (size_t i = 0; i < pass->tensor_count(); ++i)
    if (const TensorRecord record = pass->tensor(i); !record.group.empty()) {
      EXPECT_EQ(record.group, sample_description());
      quantized.push_back(to_string(record.key()));
    }
  EXPECT_EQ(quantized,
            (std::vector<std::string>{"fc@param/weight", "also@param/weight", "fc@param/weight/columnwise"}));
}

TEST(Groups, AreTheirPartsByNumber) {
  const ScratchDirectory scratch;
  const auto pass = Pass::open(write_groups(scratch.path()));
  ASSERT_TRUE(pass.ok());
  for (const std::string name : {"fc", "also"}) {
    const auto parts = group_of(*pass, index_of(*pass, name + "@param/weight"));
    ASSERT_TRUE(parts.ok()) << parts.error().describe();
    EXPECT_EQ(parts->format.name, "nvfp4");
    EXPECT_EQ(parts->shape, (std::vector<int64_t>{4, 32}));
    EXPECT_EQ(parts->dtype, DType::kF32);
    EXPECT_EQ(to_string(pass->tensor(parts->payload).key()), name + "@param/weight/payload");
    EXPECT_EQ(parts->scale, index_of(*pass, name + "@param/weight/scale"));
    EXPECT_EQ(parts->global, index_of(*pass, name + "@param/weight/global_scale"));
    EXPECT_FALSE(parts->zero_point);
    const auto group = read_group(*pass, *parts);
    ASSERT_TRUE(group.ok()) << group.error().describe();
    EXPECT_EQ(byte_count(group->payload), 64u);
  }
}

TEST(Groups, GiveTheirValuesDecodedAndOthersTheirsAsTheyAre) {
  const ScratchDirectory scratch;
  const auto pass = Pass::open(write_groups(scratch.path()));
  ASSERT_TRUE(pass.ok());
  const size_t weight = index_of(*pass, "fc@param/weight"), bias = index_of(*pass, "fc@param/bias");
  EXPECT_TRUE(has_values(*pass, weight));
  auto decoded = read_values(*pass, weight);
  ASSERT_TRUE(decoded.ok()) << decoded.error().describe();
  EXPECT_TRUE(decoded->decoded);
  const Values moved = std::move(decoded).value();
  EXPECT_EQ(floats_of(moved.view), decoded_weight());
  EXPECT_EQ(fingerprint(moved.view).hash, pass->tensor(weight).fingerprint.hash);
  EXPECT_TRUE(has_values(*pass, bias));
  const auto plain = read_values(*pass, bias);
  ASSERT_TRUE(plain.ok());
  EXPECT_FALSE(plain->decoded);
  EXPECT_EQ(plain->view.data, pass->read(bias)->data);
}

TEST(Groups, SayWhatIsMissing) {
  const ScratchDirectory scratch;
  const auto pass = Pass::open(write_groups(scratch.path()));
  ASSERT_TRUE(pass.ok());
  const auto plain = group_of(*pass, index_of(*pass, "fc@param/bias"));
  ASSERT_FALSE(plain.ok());
  EXPECT_EQ(plain.error().code, ErrorCode::kInvalidArgument);
  const size_t columnwise = index_of(*pass, "fc@param/weight/columnwise");
  const auto missing = group_of(*pass, columnwise);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find("fc@param/weight/columnwise/payload"), std::string::npos);
  EXPECT_FALSE(has_values(*pass, columnwise));
  EXPECT_FALSE(read_values(*pass, columnwise).ok());
  const auto bytes = pass->read(index_of(*pass, "fc@param/weight"));
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.error().code, ErrorCode::kNotRecorded);
}

TEST(Groups, DescriptionsThereAndBack) {
  const auto read = group_description_from_json(sample_description());
  ASSERT_TRUE(read.ok()) << read.error().describe();
  EXPECT_EQ(to_json(*read), sample_description());
  EXPECT_EQ(read->parts, (std::vector<std::string>{"payload", "scale", "global_scale"}));
  for (const char* text : {"", "[]", "{}", R"({"format": {}})", R"({"format": {}, "parts": "payload"})",
                           R"({"format": {}, "parts": [1]})", R"({"format": {"element": "e9m9"}, "parts": []})"}) {
    const auto bad = group_description_from_json(text);
    ASSERT_FALSE(bad.ok()) << text;
    EXPECT_EQ(bad.error().code, ErrorCode::kCorrupt);
  }
}

// Writes `fc@param/weight` with this description and a payload of these shape and bytes.
Result<Values> values_with(const std::filesystem::path& directory, const std::string& description,
                           const std::vector<int64_t>& shape, bool payload_has_bytes) {
  const auto path = directory / "pass00000.ttap";
  std::filesystem::remove(path);
  const std::vector<uint8_t> payload(64, 0x38);
  const std::vector<int64_t> payload_shape = {2, 32};
  auto writer = SegmentWriter::create(path, 0, 0, "{}", {});
  EXPECT_TRUE(writer.ok());
  TensorRecord part = test::record_at("/weight/payload", {payload.data(), DType::kU8, payload_shape, {}});
  part.has_bytes = payload_has_bytes;
  writer->add_tensor(part, 0, payload_has_bytes ? std::as_bytes(std::span(payload)) : std::span<const std::byte>{});
  const float one = 1;
  TensorRecord scale = test::record_at("/weight/scale", {&one, DType::kF32, {}, {}});
  scale.has_bytes = true;
  writer->add_tensor(scale, 0, std::as_bytes(std::span(&one, 1)));
  TensorRecord whole;
  whole.name = "fc";
  whole.role = "param";
  whole.path = "/weight";
  whole.shape = shape;
  whole.byte_count = sizeof(float);
  for (const int64_t length : shape) whole.byte_count *= static_cast<uint64_t>(length);
  whole.group = description;
  writer->add_tensor(whole, 0, {});
  EXPECT_FALSE(writer->flush().error);
  EXPECT_TRUE(writer->finish("{}", {}).ok());
  const auto pass = Pass::open(path);
  EXPECT_TRUE(pass.ok());
  EXPECT_EQ(pass->info().problem, "");
  auto values = read_values(*pass, 2);
  EXPECT_TRUE(!values.ok() || has_values(*pass, 2)) << "what can be read is said to be there";
  return values;
}

TEST(Groups, ThatDoNotDecodeSayWhy) {
  const ScratchDirectory scratch;
  GroupDescription description{.format = *quant_format("fp8"), .parts = {"payload", "scale"}};
  const auto code_of = [&](const std::vector<int64_t>& shape, bool has_bytes = true) {
    const auto values = values_with(scratch.path(), to_json(description), shape, has_bytes);
    return values.ok() ? std::optional<ErrorCode>() : values.error().code;
  };
  EXPECT_EQ(code_of({2, 32}), std::nullopt);
  EXPECT_EQ(code_of({2, 32}, false), ErrorCode::kNotRecorded);
  // More values than the payload has: nothing of that size may be asked of the memory.
  EXPECT_NE(code_of({int64_t{1} << 30, int64_t{1} << 29}), std::nullopt);
  description.format.rotated = true;
  EXPECT_EQ(code_of({2, 32}), ErrorCode::kNotRecorded);
  description.format.rotated = false;
  description.parts = {"scale"};
  EXPECT_EQ(code_of({2, 32}), ErrorCode::kCorrupt);
  description.parts = {"payload", "scale", "zero_point"};
  EXPECT_EQ(code_of({2, 32}), ErrorCode::kNotFound);
}

// ---- other formats ----

constexpr Format kOtherFormats[] = {Format::kSafetensors, Format::kPt, Format::kNpy};

class GroupsExported : public testing::TestWithParam<Format> {};
INSTANTIATE_TEST_SUITE_P(To, GroupsExported, testing::ValuesIn(kOtherFormats),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

TEST_P(GroupsExported, AreToldOfAndDecode) {
  const ScratchDirectory scratch;
  const auto pass = Pass::open(write_groups(scratch.path()));
  ASSERT_TRUE(pass.ok());
  const auto exported = export_pass(*pass, GetParam(), scratch / "out");
  ASSERT_TRUE(exported.ok()) << exported.error().describe();
  EXPECT_EQ(exported->without_bytes, 1u) << "columnwise, whose parts are not there";
  const auto read = Pass::open(exported->path);
  ASSERT_TRUE(read.ok()) << read.error().describe();
  EXPECT_TRUE(read->info().notes.empty());
  for (const char* key : {"fc@param/weight", "also@param/weight"}) {
    const size_t weight = index_of(*read, key);
    EXPECT_EQ(read->tensor(weight).group, sample_description());
    EXPECT_FALSE(read->tensor(weight).has_bytes);
    EXPECT_FALSE(read->read(weight).ok());
    const auto values = read_values(*read, weight);
    ASSERT_TRUE(values.ok()) << values.error().describe();
    EXPECT_EQ(floats_of(values->view), decoded_weight());
  }
}

TEST_P(GroupsExported, HaveTheirPartsAsTheyAre) {
  const ScratchDirectory scratch;
  const auto pass = Pass::open(write_groups(scratch.path()));
  ASSERT_TRUE(pass.ok());
  const auto exported = export_pass(*pass, GetParam(), scratch / "out");
  ASSERT_TRUE(exported.ok()) << exported.error().describe();
  const auto read = Pass::open(exported->path);
  ASSERT_TRUE(read.ok()) << read.error().describe();
  for (const char* key : {"fc@param/weight/payload", "fc@param/weight/scale", "fc@param/weight/global_scale"}) {
    const size_t before = index_of(*pass, key), after = index_of(*read, key);
    EXPECT_EQ(read->tensor(after).dtype, pass->tensor(before).dtype) << key;
    EXPECT_FALSE(read->tensor(after).true_dtype) << key;
    EXPECT_EQ(fingerprint(*read->read(after)).hash, fingerprint(*pass->read(before)).hash) << key;
  }
}

TEST_P(GroupsExported, ThatAreNotWholeAreNotToldOf) {
  const ScratchDirectory scratch;
  const auto pass = Pass::open(write_groups(scratch.path()));
  ASSERT_TRUE(pass.ok());
  for (const std::string part : {"payload", "/scale", "global_scale"}) {
    const auto without = [&](const TensorRecord& record) { return !record.path.ends_with(part); };
    const auto exported = export_pass(*pass, GetParam(), scratch / ("out_" + part.substr(1)), without);
    ASSERT_TRUE(exported.ok());
    EXPECT_EQ(exported->without_bytes, 3u) << part;
    EXPECT_FALSE(Pass::open(exported->path)->find({.name = "fc", .role = "param", .path = "/weight"})) << part;
  }
}

// ---- damage ----

// Whatever a damaged file still gives must be what was recorded.
void expect_only_true_groups(const std::filesystem::path& path, const std::string& what) {
  const auto pass = Pass::open(path);
  if (!pass.ok()) return;
  for (size_t i = 0; i < pass->tensor_count(); ++i) {
    const TensorRecord record = pass->tensor(i);
    if (record.group.empty()) continue;
    ASSERT_EQ(record.group, sample_description()) << what;
    ASSERT_TRUE(record.path == "/weight" || record.path == "/weight/columnwise") << what;
    const auto values = read_values(*pass, i);
    if (values.ok()) {
      ASSERT_EQ(floats_of(values->view), decoded_weight()) << what;
    }
  }
}

TEST(GroupsDamage, TruncatedAnywhereTheyAreTheTruthOrNotThere) {
  const ScratchDirectory scratch;
  const auto bytes = read_file(write_groups(scratch.path()));
  const auto path = scratch / "cut.ttap";
  size_t most = 0;
  for (size_t size = 64; size < bytes.size(); ++size) {
    write_file(path, std::span(bytes).first(size));
    expect_only_true_groups(path, "cut to " + std::to_string(size));
    const auto pass = Pass::open(path);
    ASSERT_TRUE(pass.ok());
    size_t groups = 0;
    for (size_t i = 0; i < pass->tensor_count(); ++i) groups += pass->tensor(i).group.empty() ? 0 : 1;
    EXPECT_GE(groups, most) << "a longer file gave fewer groups at " << size;
    most = groups;
  }
  EXPECT_EQ(most, 3u);
}

TEST(GroupsDamage, WithAnyByteFlippedTheyAreTheTruthOrNotThere) {
  const ScratchDirectory scratch;
  auto bytes = read_file(write_groups(scratch.path()));
  const auto path = scratch / "flipped.ttap";
  for (size_t at = 0; at < bytes.size(); ++at)
    for (const int mask : {0x01, 0xFF}) {
      bytes[at] ^= std::byte(mask);
      write_file(path, bytes);
      expect_only_true_groups(path, "byte " + std::to_string(at));
      bytes[at] ^= std::byte(mask);
    }
}

TEST(GroupsDamage, RecoveryKeepsThem) {
  const ScratchDirectory scratch;
  const auto whole = read_file(write_groups(scratch.path()));
  const auto torn = scratch / "pass00004.ttap.incomplete";
  write_file(torn, std::span(whole).first(whole.size() - 400));  // without its index
  const auto recovered = recover_pass(torn);
  ASSERT_TRUE(recovered.ok()) << recovered.error().describe();
  const auto pass = Pass::open(recovered->path);
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(pass->info().problem, "");
  EXPECT_EQ(pass->tensor(index_of(*pass, "fc@param/weight/columnwise")).group, sample_description());
}

// ---- rows that somebody made, with every checksum right ----

// What the reader says when a row of the first table of groups is another one.
std::string problem_with(const std::filesystem::path& directory, size_t row,
                         const std::function<void(format::GroupRow&)>& change) {
  auto bytes = read_file(write_groups(directory));
  std::filesystem::remove(directory / "pass00003.ttap");
  format::FrameHeader header{};
  size_t at = 64;
  for (;; at += 64 + format::align_up(header.payload_bytes)) {
    std::memcpy(&header, bytes.data() + at, sizeof header);
    if (header.type == static_cast<uint16_t>(format::FrameType::kGroups)) break;
  }
  std::byte* const place = bytes.data() + at + sizeof header + row * sizeof(format::GroupRow);
  format::GroupRow changed;
  std::memcpy(&changed, place, sizeof changed);
  change(changed);
  std::memcpy(place, &changed, sizeof changed);
  header.payload_crc = crc32c(std::span(bytes).subspan(at + sizeof header, header.payload_bytes));
  header.header_crc = crc32c(std::as_bytes(std::span(&header, 1)).first(60));
  std::memcpy(bytes.data() + at, &header, sizeof header);
  bytes.resize(bytes.size() - 64);  // without the trailer the frames are walked, and the problem is told
  const auto path = directory / "hostile.ttap";
  write_file(path, bytes);
  const auto pass = Pass::open(path);
  EXPECT_TRUE(pass.ok());
  if (!pass->info().problem.empty()) {
    for (size_t i = 0; i < pass->tensor_count(); ++i) EXPECT_EQ(pass->tensor(i).group, "");
  }
  return pass->info().problem;
}

TEST(GroupsHostile, RowsThatDoNotHoldAreNotUsed) {
  const ScratchDirectory scratch;
  const auto problem = [&](size_t row, const auto& change) { return problem_with(scratch.path(), row, change); };
  EXPECT_EQ(problem(0, [](auto&) {}), "");
  for (const uint32_t tensor : {8u, 1'000'000u, 0xFFFFFFFFu})
    EXPECT_NE(problem(1, [&](auto& row) { row.tensor = tensor; }).find("a tensor that is not there"),
              std::string::npos);
  EXPECT_NE(problem(1, [](auto& row) { row.tensor = 6; }).find("order of their tensors"), std::string::npos);
  EXPECT_NE(problem(0, [](auto& row) { row.description = 1000; }).find("a string that is not there"),
            std::string::npos);
}

}  // namespace
}  // namespace ttap
