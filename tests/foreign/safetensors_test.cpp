#include "store/foreign/safetensors.h"

#include <gtest/gtest.h>

#include "foreign/formats.h"

namespace ttap {
namespace {

using test::bytes_of;
using test::logical_bytes;
using test::TemporaryFolder;

std::vector<std::byte> file_of(std::string_view header, size_t data) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i));
  file += header;
  for (size_t i = 0; i < data; ++i) file += static_cast<char>(i);
  return bytes_of(file);
}

TEST(Safetensors, GivesBackEveryDTypeInEveryLayout) {
  const TemporaryFolder folder;
  const auto samples = test::sample_tensors();
  ASSERT_TRUE(write_safetensors(folder / "x.safetensors", test::named(samples)).ok());
  const auto read = read_safetensors(folder / "x.safetensors");
  ASSERT_TRUE(read.ok()) << read.error().describe();
  ASSERT_EQ(read->tensors.size(), samples.size());
  EXPECT_TRUE(read->notes.empty());
  for (size_t i = 0; i < samples.size(); ++i) {
    SCOPED_TRACE(samples[i].name);
    const ForeignTensor& tensor = read->tensors[i];
    EXPECT_EQ(to_string(tensor.key), samples[i].name);
    EXPECT_EQ(tensor.dtype, samples[i].dtype);
    EXPECT_EQ(tensor.shape, samples[i].shape);
    EXPECT_EQ(logical_bytes(tensor.view()), logical_bytes(samples[i].view()));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.bytes.data()) % size_of(tensor.dtype), 0u);
  }
}

TEST(Safetensors, KeepsNamesThatJsonMustEscapeAndForeignMetadata) {
  const TemporaryFolder folder;
  const auto sample = test::sample_tensor(DType::kC128, test::sample_layouts()[3]);
  const std::string key = "a\"b\\c\n\u00e9 \u4e2d";
  const std::vector<std::pair<std::string, std::string>> metadata = {{"format", "pt"}};
  ASSERT_TRUE(write_safetensors(folder / "x", {{{key, sample.view()}}}, metadata).ok());
  const auto read = read_safetensors(folder / "x");
  ASSERT_TRUE(read.ok()) << read.error().describe();
  EXPECT_EQ(read->tensors[0].key.name, key);
  EXPECT_EQ(read->notes, std::vector<std::string>{"format: pt"});
}

TEST(Safetensors, HoldsNoTensorsAtAll) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_safetensors(folder / "x", {}).ok());
  const auto read = read_safetensors(folder / "x");
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(read->tensors.empty());
}

TEST(Safetensors, RefusesToWriteWhatCannotBeReadBack) {
  const TemporaryFolder folder;
  const auto view = test::sample_tensor(DType::kF32, test::sample_layouts()[0]);
  const auto code = [&](std::vector<NamedTensor> tensors) {
    const auto status = write_safetensors(folder / "x", tensors);
    return status.ok() ? ErrorCode::kIo : status.error().code;
  };
  EXPECT_EQ(code({{"__metadata__", view.view()}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({{"a", view.view()}, {"a", view.view()}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({{"a\xff", view.view()}}), ErrorCode::kInvalidArgument);
  const int64_t shape[] = {-1};
  EXPECT_EQ(code({{"a", {.data = &view, .dtype = DType::kF32, .shape = shape}}}), ErrorCode::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(folder / "x"));
}

struct BadHeader {
  const char* name;
  const char* header;
  size_t data;
  ErrorCode code;
};
class SafetensorsHeaderError : public testing::TestWithParam<BadHeader> {};

TEST_P(SafetensorsHeaderError, IsRefused) {
  const auto parsed = parse_safetensors(file_of(GetParam().header, GetParam().data));
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().code, GetParam().code) << parsed.error().describe();
  EXPECT_TRUE(parsed.error().offset.has_value());
}

#define F32(name, shape, offsets) "\"" name R"(":{"dtype":"F32","shape":)" shape R"(,"data_offsets":)" offsets "}"
INSTANTIATE_TEST_SUITE_P(
    Safetensors, SafetensorsHeaderError,
    testing::Values(
        BadHeader{"NotJson", "{x", 0, ErrorCode::kCorrupt},
        BadHeader{"Another", "<html>", 0, ErrorCode::kNotThisFormat},
        BadHeader{"NotUtf8", "{\"\xff\":{}}", 0, ErrorCode::kCorrupt},
        BadHeader{"DuplicateName", "{" F32("a", "[1]", "[0,4]") "," F32("a", "[1]", "[4,8]") "}", 8,
                  ErrorCode::kCorrupt},
        BadHeader{"Overlap", "{" F32("a", "[1]", "[0,4]") "," F32("b", "[1]", "[0,4]") "}", 4, ErrorCode::kCorrupt},
        BadHeader{"Hole", "{" F32("a", "[1]", "[0,4]") "," F32("b", "[1]", "[8,12]") "}", 12, ErrorCode::kCorrupt},
        BadHeader{"HoleAtStart", "{" F32("a", "[1]", "[4,8]") "}", 8, ErrorCode::kCorrupt},
        BadHeader{"HoleAtEnd", "{" F32("a", "[1]", "[0,4]") "}", 5, ErrorCode::kCorrupt},
        BadHeader{"Backwards", "{" F32("a", "[1]", "[0,4]") "," F32("b", "[1]", "[4,0]") "}", 4, ErrorCode::kCorrupt},
        BadHeader{"DataCutShort", "{" F32("a", "[2]", "[0,8]") "}", 7, ErrorCode::kTruncated},
        BadHeader{"SizeDisagrees", "{" F32("a", "[2]", "[0,4]") "}", 4, ErrorCode::kCorrupt},
        BadHeader{"ShapeOverflows", "{" F32("a", "[4294967296,4294967296]", "[0,0]") "}", 0, ErrorCode::kTooLarge},
        BadHeader{"NumberOverflows", "{" F32("a", "[18446744073709551615]", "[0,4]") "}", 4, ErrorCode::kCorrupt},
        BadHeader{"NegativeDimension", "{" F32("a", "[-1]", "[0,4]") "}", 4, ErrorCode::kCorrupt},
        BadHeader{"FractionalOffset", "{" F32("a", "[1]", "[0,4.0]") "}", 4, ErrorCode::kCorrupt},
        BadHeader{"ThreeOffsets", "{" F32("a", "[1]", "[0,4,4]") "}", 4, ErrorCode::kCorrupt},
        BadHeader{"OneOffset", "{" F32("a", "[1]", "[4]") "}", 4, ErrorCode::kCorrupt},
        BadHeader{"NestedShape", "{" F32("a", "[[1]]", "[0,4]") "}", 4, ErrorCode::kCorrupt},
        BadHeader{"UnknownField", R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4],"x":1}})", 4,
                  ErrorCode::kCorrupt},
        BadHeader{"FieldTwice", R"({"a":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4,
                  ErrorCode::kCorrupt},
        BadHeader{"FieldMissing", R"({"a":{"dtype":"F32","shape":[]}})", 4, ErrorCode::kCorrupt},
        BadHeader{"DTypeNotText", R"({"a":{"dtype":1,"shape":[],"data_offsets":[0,4]}})", 4, ErrorCode::kCorrupt},
        BadHeader{"TensorNotAnObject", R"({"a":[]})", 0, ErrorCode::kCorrupt},
        BadHeader{"MetadataNotText", R"({"__metadata__":{"a":1}})", 0, ErrorCode::kCorrupt},
        BadHeader{"GroupsNotAList", R"({"__metadata__":{"ttap.groups":"{}"}})", 0, ErrorCode::kCorrupt},
        BadHeader{"GroupsNotObjects", R"({"__metadata__":{"ttap.groups":"[1]"}})", 0, ErrorCode::kCorrupt},
        BadHeader{"GroupsWithoutAKey",
                  R"({"__metadata__":{"ttap.groups":)"
                  R"("[{\"name\":\"\",\"call\":1,\"role\":\"out\",\"path\":\"\",\"dtype\":\"f32\",)"
                  R"(\"shape\":[2],\"description\":{}}]"}})",
                  0, ErrorCode::kCorrupt},
        BadHeader{"GroupsOfAShapeThatCannotBe",
                  R"({"__metadata__":{"ttap.groups":)"
                  R"("[{\"name\":\"a\",\"call\":1,\"role\":\"out\",\"path\":\"\",\"dtype\":\"f32\",)"
                  R"(\"shape\":[-2],\"description\":{}}]"}})",
                  0, ErrorCode::kCorrupt},
        BadHeader{"MetadataTwice", R"({"__metadata__":{"a":"1","a":"2"}})", 0, ErrorCode::kCorrupt},
        BadHeader{"UnknownDType", R"({"a":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}})", 3,
                  ErrorCode::kUnsupported},
        BadHeader{"HalfBytes", R"({"a":{"dtype":"F4","shape":[2,3],"data_offsets":[0,3]}})", 3,
                  ErrorCode::kUnsupported},
        BadHeader{"TrueDTypeThatCannotBe",
                  R"({"__metadata__":{"ttap.dtype.a":"c128"},"a":{"dtype":"F64","shape":[3],"data_offsets":[0,24]}})",
                  24, ErrorCode::kCorrupt}),
    [](const auto& test_info) { return test_info.param.name; });

TEST(SafetensorsErrors, HeaderOverTheLimit) {
  std::vector<std::byte> file(16, std::byte{'{'});
  for (size_t i = 0; i < 8; ++i) file[i] = std::byte{0x7F};
  EXPECT_EQ(parse_safetensors(file).error().code, ErrorCode::kTooLarge);
}

TEST(Safetensors, CutAnywhereIsTruncated) {
  const TemporaryFolder folder;
  const auto sample = test::sample_tensor(DType::kC128, test::sample_layouts()[3]);
  ASSERT_TRUE(write_safetensors(folder / "x", {{{"a", sample.view()}}}).ok());
  const auto file = test::bytes_of_file(folder / "x");
  for (size_t size = 0; size < file.size(); ++size) {
    const std::vector<std::byte> cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    const auto parsed = parse_safetensors(cut);
    ASSERT_FALSE(parsed.ok()) << size;
    EXPECT_EQ(parsed.error().code, ErrorCode::kTruncated) << size;
  }
}

TEST(Safetensors, AFlippedByteGivesAnErrorOrAConsistentTensor) {
  const auto file = file_of("{" F32("a", "[2,1]", "[0,8]") "," R"("b":{"dtype":"F4","shape":[4],"data_offsets":[8,10]}})", 10);
  ASSERT_TRUE(parse_safetensors(file).ok());
  for (size_t i = 0; i < file.size(); ++i)
    for (unsigned flip = 1; flip < 256; ++flip) {
      auto copy = file;
      copy[i] ^= static_cast<std::byte>(flip);
      if (const auto parsed = parse_safetensors(copy); parsed.ok()) test::touch(*parsed);
    }
}

}  // namespace
}  // namespace ttap
