#include "store/foreign/npy.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/element.h"
#include "foreign/formats.h"
#include "store/foreign/npy_header.h"

namespace ttap {
namespace {

using test::bytes_of;
using test::logical_bytes;
using test::TemporaryFolder;

// A file with `dictionary` as its header and `data` behind it.
std::vector<std::byte> npy_file(std::string_view dictionary, size_t data, char version = 1) {
  std::string file = "\x93NUMPY";
  file += {version, '\0'};
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) file += static_cast<char>(dictionary.size() >> (8 * i));
  file += dictionary;
  for (size_t i = 0; i < data; ++i) file += static_cast<char>(i);
  return bytes_of(file);
}

ErrorCode code_of(std::string_view dictionary, size_t data = 8) {
  const auto parsed = parse_npy(npy_file(dictionary, data));
  EXPECT_FALSE(parsed.ok());
  return parsed.ok() ? ErrorCode::kIo : parsed.error().code;
}

TEST(Npy, GivesBackEveryDTypeThatNumPyHasInEveryLayout) {
  const TemporaryFolder folder;
  for (const auto& sample : test::sample_tensors()) {
    if (!npy_descr(sample.dtype)) continue;
    SCOPED_TRACE(sample.name);
    ASSERT_TRUE(write_npy(folder / "x.npy", sample.view()).ok());
    const auto read = read_npy(folder / "x.npy");
    ASSERT_TRUE(read.ok()) << read.error().describe();
    const ForeignTensor& tensor = read->tensors.at(0);
    EXPECT_EQ(tensor.key.name, "x");
    EXPECT_EQ(tensor.dtype, sample.dtype);
    EXPECT_EQ(tensor.shape, sample.shape);
    EXPECT_EQ(logical_bytes(tensor.view()), logical_bytes(sample.view()));
  }
}

TEST(NpyFolder, KeepsKeysInOrderAndWidensWhatNumPyLacks) {
  const TemporaryFolder folder;
  const auto samples = test::sample_tensors();
  ASSERT_TRUE(write_npy_folder(folder / "pass", test::named(samples)).ok());
  const auto read = read_npy_folder(folder / "pass");
  ASSERT_TRUE(read.ok()) << read.error().describe();
  ASSERT_EQ(read->tensors.size(), samples.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto& sample = samples[i];
    const ForeignTensor& tensor = read->tensors[i];
    SCOPED_TRACE(sample.name);
    EXPECT_EQ(to_string(tensor.key), sample.name);
    const auto expected = logical_bytes(sample.view());
    const auto actual = logical_bytes(tensor.view());
    if (npy_descr(sample.dtype)) {
      EXPECT_FALSE(tensor.true_dtype.has_value());
      EXPECT_EQ(actual, expected);
      continue;
    }
    EXPECT_EQ(tensor.dtype, DType::kF32);
    EXPECT_EQ(tensor.true_dtype, sample.dtype);
    const size_t values = dtype_info(sample.dtype).values, size = size_of(sample.dtype);
    ASSERT_EQ(actual.size() / 4, expected.size() / size * values);
    for (size_t v = 0; v < actual.size() / 4; ++v) {
      float wide = 0;
      std::memcpy(&wide, actual.data() + 4 * v, 4);
      const auto narrow = value_of(sample.dtype, expected.data() + v / values * size, static_cast<int>(v % values));
      EXPECT_TRUE(wide == narrow || (std::isnan(wide) && std::isnan(narrow)));
    }
  }
}

TEST(NpyFolder, KeepsTheCodesOfPartsOfQuantizedTensors) {
  const TemporaryFolder folder;
  const auto samples = test::sample_tensors();
  auto parts = test::named(samples);
  for (NamedTensor& part : parts) part.codes = true;
  ASSERT_TRUE(write_npy_folder(folder / "pass", parts).ok());
  const auto read = read_npy_folder(folder / "pass");
  ASSERT_TRUE(read.ok()) << read.error().describe();
  ASSERT_EQ(read->tensors.size(), samples.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    SCOPED_TRACE(samples[i].name);
    const ForeignTensor& tensor = read->tensors[i];
    EXPECT_FALSE(tensor.true_dtype);
    EXPECT_EQ(tensor.dtype, samples[i].dtype);
    EXPECT_EQ(tensor.shape, samples[i].shape);
    EXPECT_EQ(logical_bytes(tensor.view()), logical_bytes(samples[i].view()));
  }
}

TEST(NpyFolder, WithoutAnIndexIsReadByFileName) {
  const TemporaryFolder folder;
  const auto sample = test::sample_tensor(DType::kF32, test::sample_layouts()[2]);
  const std::vector<NamedTensor> tensors = {{"b::call2@in/0", sample.view()}, {"a", sample.view()}};
  ASSERT_TRUE(write_npy_folder(folder / "pass", tensors).ok());
  std::filesystem::remove(folder / "pass/index.json");
  const auto read = read_npy_folder(folder / "pass");
  ASSERT_TRUE(read.ok());
  ASSERT_EQ(read->tensors.size(), 2u);
  EXPECT_EQ(read->tensors[0].key.name, "a");
  EXPECT_EQ(to_string(read->tensors[1].key), "b::call2@in/0");
}

TEST(NpyFolder, NamesFilesTheIndexDoesNotKnow) {
  const TemporaryFolder folder;
  const auto sample = test::sample_tensor(DType::kF32, test::sample_layouts()[2]);
  ASSERT_TRUE(write_npy_folder(folder / "pass", {{{"a", sample.view()}}}).ok());
  ASSERT_TRUE(write_npy(folder / "pass/b.npy", sample.view()).ok());
  const auto read = read_npy_folder(folder / "pass");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->notes, std::vector<std::string>{"b.npy: not in the index, not read"});
}

TEST(NpyFolder, DoesNotWriteIntoAFullFolder) {
  const TemporaryFolder folder;
  test::write_text(folder / "x", "");
  const auto status = write_npy_folder(folder / "", {});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
}

struct BadIndex {
  const char* name;
  const char* text;
  ErrorCode code;
};
class NpyFolderIndex : public testing::TestWithParam<BadIndex> {};

TEST_P(NpyFolderIndex, IsRefused) {
  const TemporaryFolder folder;
  const auto sample = test::sample_tensor(DType::kF32, test::sample_layouts()[2]);
  ASSERT_TRUE(write_npy_folder(folder / "pass", {{{"a", sample.view()}}}).ok());
  ASSERT_TRUE(write_npy(folder / "outside.npy", sample.view()).ok());
  test::write_text(folder / "pass/index.json", GetParam().text);
  const auto read = read_npy_folder(folder / "pass");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, GetParam().code) << read.error().describe();
  EXPECT_FALSE(read.error().path.empty());
}

#define INDEX(entries) R"({"format":"ttap-npy","version":1,"tensors":[)" entries "]}"
INSTANTIATE_TEST_SUITE_P(
    Npy, NpyFolderIndex,
    testing::Values(
        BadIndex{"NotJson", "{", ErrorCode::kCorrupt}, BadIndex{"OfAnotherProgram", "{}", ErrorCode::kCorrupt},
        BadIndex{"Later", R"({"format":"ttap-npy","version":2,"tensors":[]})", ErrorCode::kVersion},
        BadIndex{"NoList", R"({"format":"ttap-npy","version":1,"tensors":{}})", ErrorCode::kCorrupt},
        BadIndex{"EntryWithoutFile", INDEX(R"({"key":"a","dtype":"f32"})"), ErrorCode::kCorrupt},
        BadIndex{"EntryNotAnObject", INDEX("1"), ErrorCode::kCorrupt},
        BadIndex{"LeadsOutside", INDEX(R"({"key":"a","dtype":"f32","file":"../outside.npy"})"), ErrorCode::kCorrupt},
        BadIndex{"NulInName", INDEX(R"({"key":"a","dtype":"f32","file":"a.npy\u0000x"})"), ErrorCode::kCorrupt},
        BadIndex{"MissingFile", INDEX(R"({"key":"a","dtype":"f32","file":"b.npy"})"), ErrorCode::kNotFound},
        BadIndex{"UnknownDType", INDEX(R"({"key":"a","dtype":"f33","file":"a.npy"})"), ErrorCode::kCorrupt},
        BadIndex{"OtherDTypeThanTheFile", INDEX(R"({"key":"a","dtype":"i32","file":"a.npy"})"), ErrorCode::kCorrupt},
        BadIndex{"TrueDTypeThatDoesNotWiden", INDEX(R"({"key":"a","dtype":"f32","true_dtype":"f64","file":"a.npy"})"),
                 ErrorCode::kCorrupt},
        BadIndex{"BytesOfWhatNumPyHas", INDEX(R"({"key":"a","dtype":"f32","bytes_of":"f32","file":"a.npy"})"),
                 ErrorCode::kCorrupt},
        BadIndex{"BytesOfAnotherSize", INDEX(R"({"key":"a","dtype":"f32","bytes_of":"f8_e4m3fn","file":"a.npy"})"),
                 ErrorCode::kCorrupt},
        BadIndex{"GroupsThatAreNoList", R"({"format":"ttap-npy","version":1,"tensors":[],"groups":{}})",
                 ErrorCode::kCorrupt},
        BadIndex{"KeyTwice",
                 INDEX(R"({"key":"a","dtype":"f32","file":"a.npy"},{"key":"a","dtype":"f32","file":"a.npy"})"),
                 ErrorCode::kCorrupt}),
    [](const auto& test_info) { return test_info.param.name; });

TEST(NpyErrors, AnotherFile) { EXPECT_EQ(parse_npy(bytes_of("PK\3\4")).error().code, ErrorCode::kNotThisFormat); }
TEST(NpyErrors, EmptyFile) { EXPECT_EQ(parse_npy({}).error().code, ErrorCode::kTruncated); }
TEST(NpyErrors, LaterVersion) { EXPECT_EQ(parse_npy(npy_file("{}", 0, 4)).error().code, ErrorCode::kVersion); }
TEST(NpyErrors, PythonObjects) {
  EXPECT_EQ(code_of("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"), ErrorCode::kForbidden);
}
TEST(NpyErrors, Records) {
  EXPECT_EQ(code_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }"), ErrorCode::kUnsupported);
}
TEST(NpyErrors, TextAndDatesAndLongDoubles) {
  for (const char* descr : {"<U4", "|S4", "<M8[ns]", "<f16", "|V2", "<c32"})
    EXPECT_EQ(code_of("{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (1,), }"),
              ErrorCode::kUnsupported)
        << descr;
}
TEST(NpyErrors, MalformedDictionary) {
  for (const char* text :
       {"", "{", "{}", "[]", "{'descr'}", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 2}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} 1",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (2,)}"})
    EXPECT_EQ(code_of(text), ErrorCode::kCorrupt) << text;
}
TEST(NpyErrors, ShapeThatOverflows) {
  EXPECT_EQ(code_of("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }"),
            ErrorCode::kTooLarge);
}
TEST(NpyErrors, TooManyDimensions) {
  std::string shape;
  for (int i = 0; i < 65; ++i) shape += "1, ";
  EXPECT_EQ(code_of("{'descr': '<f4', 'fortran_order': False, 'shape': (" + shape + "), }"), ErrorCode::kTooLarge);
}
TEST(NpyErrors, DataCutShort) {
  EXPECT_EQ(code_of("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"), ErrorCode::kTruncated);
}
TEST(NpyErrors, BytesLeftOver) {
  EXPECT_EQ(code_of("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"), ErrorCode::kCorrupt);
}
TEST(NpyErrors, SeveralArraysInOneFile) {
  auto file = npy_file("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8);
  const auto copy = file;
  file.insert(file.end(), copy.begin(), copy.end());
  EXPECT_EQ(parse_npy(file).error().code, ErrorCode::kUnsupported);
}
TEST(NpyErrors, MissingFileSaysWhich) {
  const auto read = read_npy("/nonexistent/x.npy");
  EXPECT_EQ(read.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(read.error().path, "/nonexistent/x.npy");
}

TEST(Npy, ReadsEveryHeaderVersion) {
  for (char version : {'\1', '\2', '\3'}) {
    const auto parsed =
        parse_npy(npy_file("{\"shape\": (2L, 1), 'fortran_order': True, 'descr': '>u2'}\n", 4, version));
    ASSERT_TRUE(parsed.ok()) << parsed.error().describe();
    EXPECT_EQ(logical_bytes(parsed->tensors[0].view()), bytes_of(std::string_view("\1\0\3\2", 4)));
  }
}

TEST(Npy, CutAnywhereIsAnErrorNotACrash) {
  const auto file = npy_file("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", 8, 2);
  ASSERT_TRUE(parse_npy(file).ok());
  for (size_t size = 0; size < file.size(); ++size) {
    const std::vector<std::byte> cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    const auto parsed = parse_npy(cut);
    ASSERT_FALSE(parsed.ok()) << size;
    EXPECT_EQ(parsed.error().code, ErrorCode::kTruncated) << size;
  }
}

TEST(Npy, AFlippedByteGivesAnErrorOrAConsistentTensor) {
  const auto file = npy_file("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", 24);
  for (size_t i = 0; i < file.size(); ++i)
    for (unsigned flip = 1; flip < 256; ++flip) {
      auto copy = file;
      copy[i] ^= static_cast<std::byte>(flip);
      if (const auto parsed = parse_npy(copy); parsed.ok()) test::touch(*parsed);
    }
}

}  // namespace
}  // namespace ttap
