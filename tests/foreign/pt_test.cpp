#include "store/foreign/pt.h"

#include <gtest/gtest.h>

#include "foreign/formats.h"
#include "foreign/pickles.h"

namespace ttap {
namespace {

using test::logical_bytes;
using test::pt_file;
using test::TemporaryFolder;

TEST(Pt, GivesBackEveryDTypeInEveryLayout) {
  const TemporaryFolder folder;
  const auto samples = test::sample_tensors();
  ASSERT_TRUE(write_pt(folder / "x.pt", test::named(samples)).ok());
  const auto read = read_pt(folder / "x.pt");
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
  }
}

TEST(Pt, WritesAViewWithoutTheRestOfItsStorage) {
  const TemporaryFolder folder;
  std::vector<float> storage(1 << 20);
  const int64_t shape[] = {2}, strides[] = {1 << 19};
  const TensorView view{storage.data(), DType::kF32, shape, strides};
  ASSERT_TRUE(write_pt(folder / "x.pt", {{{"a", view}}}).ok());
  EXPECT_LT(std::filesystem::file_size(folder / "x.pt"), 4096u);
}

TEST(Pt, SharesTheStorageOfTensorsOverTheSameMemory) {
  const TemporaryFolder folder;
  const std::vector<float> storage(1000, 1.5f);
  const int64_t flat[] = {1000}, square[] = {10, 100};
  const std::vector<NamedTensor> tensors = {{"a", {storage.data(), DType::kF32, flat, {}}},
                                            {"b", {storage.data(), DType::kF32, square, {}}}};
  ASSERT_TRUE(write_pt(folder / "x.pt", tensors).ok());
  EXPECT_LT(std::filesystem::file_size(folder / "x.pt"), 6000u);
  const auto read = read_pt(folder / "x.pt");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->tensors[0].bytes.data(), read->tensors[1].bytes.data());
  EXPECT_EQ(read->tensors[1].shape, (std::vector<int64_t>{10, 100}));
}

TEST(Pt, PutsEveryStorageAtAMultipleOf64Bytes) {
  const TemporaryFolder folder;
  const auto samples = test::sample_tensors();
  ASSERT_TRUE(write_pt(folder / "x.pt", test::named(samples)).ok());
  const auto file = MappedFile::open(folder / "x.pt");
  const auto parsed = parse_pt((*file)->bytes());
  ASSERT_TRUE(parsed.ok());
  for (const ForeignTensor& tensor : parsed->tensors) {
    if (tensor.bytes.empty()) continue;
    EXPECT_EQ((tensor.bytes.data() - (*file)->bytes().data()) % 64, 0) << tensor.key.name;
  }
}

TEST(Pt, HoldsMoreEntriesThanAPlainZipArchiveCan) {
  const TemporaryFolder folder;
  std::vector<int64_t> storage(70'000);
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < storage.size(); ++i) {
    storage[i] = static_cast<int64_t>(i);
    tensors.push_back({"t" + std::to_string(i), {&storage[i], DType::kI64, {}, {}}});
  }
  ASSERT_TRUE(write_pt(folder / "x.pt", tensors).ok());
  const auto read = read_pt(folder / "x.pt");
  ASSERT_TRUE(read.ok()) << read.error().describe();
  ASSERT_EQ(read->tensors.size(), storage.size());
  EXPECT_EQ(logical_bytes(read->tensors.back().view()), logical_bytes(tensors.back().view));
}

// Writes 4 GiB: run it by hand with --gtest_also_run_disabled_tests.
TEST(Pt, DISABLED_HoldsAStorageOver4GiB) {
  const TemporaryFolder folder;
  const uint8_t byte = 7;
  const int64_t shape[] = {(int64_t{1} << 32) + 5}, strides[] = {0};
  const int64_t after = 42;
  const std::vector<NamedTensor> tensors = {{"large", {&byte, DType::kU8, shape, strides}},
                                            {"after", {&after, DType::kI64, {}, {}}}};
  ASSERT_TRUE(write_pt(folder / "x.pt", tensors).ok());
  const auto read = read_pt(folder / "x.pt");
  ASSERT_TRUE(read.ok()) << read.error().describe();
  EXPECT_EQ(read->tensors[0].bytes.size(), static_cast<size_t>(shape[0]));
  EXPECT_EQ(logical_bytes(read->tensors[1].view()), logical_bytes(tensors[1].view));
}

TEST(Pt, FlattensNestedContainersAndNotesTheRest) {
  using namespace test;
  const std::string t = tensor_pickle("FloatStorage", "0", 4, 0, {4}, {1});
  const auto parsed = parse_pt(pt_file("}(" + text("model") + "}(" + text("a/b") + t + text("list") + "](" + t + "K\7" +
                                           "eu" + text("epoch") + "K\3" + text("betas") + "K\1K\2\x86" + text("empty") +
                                           "}" + "K\5" + t + "u.",
                                       {{"0", std::string(16, 'x')}}));
  ASSERT_TRUE(parsed.ok()) << parsed.error().describe();
  std::vector<std::string> keys;
  for (const ForeignTensor& tensor : parsed->tensors) keys.push_back(to_string(tensor.key));
  EXPECT_EQ(keys, (std::vector<std::string>{"model/a%2Fb", "model/list/0", "5"}));
  EXPECT_EQ(parsed->notes, (std::vector<std::string>{"model/list/1: 7", "epoch: 3", "betas: (1, 2)", "empty: {}"}));
}

TEST(Pt, CallsABareTensorTensor) {
  using namespace test;
  const auto parsed =
      parse_pt(pt_file(tensor_pickle("FloatStorage", "0", 4, 1, {3}, {1}) + ".", {{"0", std::string(16, 'x')}}));
  ASSERT_TRUE(parsed.ok()) << parsed.error().describe();
  EXPECT_EQ(to_string(parsed->tensors.at(0).key), "tensor");
}

TEST(Pt, WithoutVerificationReadsNoTensorBytes) {
  using namespace test;
  auto file = pt_file(tensor_pickle("ByteStorage", "0", 4, 0, {4}, {1}) + ".", {{"0", "abcd"}});
  const auto whole = parse_pt(file);
  ASSERT_TRUE(whole.ok());
  file[static_cast<size_t>(whole->tensors[0].bytes.data() - file.data())] ^= std::byte{1};
  EXPECT_EQ(parse_pt(file).error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(parse_pt(file, {.verify_tensors = false}).ok());
}

TEST(Pt, WhatItSaysOfQuantizedTensorsMustBeAList) {
  const TemporaryFolder folder;
  const auto sample = test::sample_tensor(DType::kF32, test::sample_layouts()[2]);
  ASSERT_TRUE(write_pt(folder / "sound.pt", {{{"a", sample.view()}}}, "[]").ok());
  EXPECT_TRUE(read_pt(folder / "sound.pt").ok());
  for (const char* groups : {"{}", "[1]", "[", R"([{"name": "a"}])"}) {
    ASSERT_TRUE(write_pt(folder / "x.pt", {{{"a", sample.view()}}}, groups).ok());
    const auto read = read_pt(folder / "x.pt");
    ASSERT_FALSE(read.ok()) << groups;
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt) << groups;
  }
}

TEST(Pt, CutAnywhereIsAnErrorNotACrash) {
  const TemporaryFolder folder;
  const auto sample = test::sample_tensor(DType::kF16, test::sample_layouts()[3]);
  ASSERT_TRUE(write_pt(folder / "x", {{{"a", sample.view()}}}).ok());
  const auto file = test::bytes_of_file(folder / "x");
  for (size_t size = 0; size < file.size(); ++size) {
    const std::vector<std::byte> cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    const auto parsed = parse_pt(cut);
    ASSERT_FALSE(parsed.ok()) << size;
    EXPECT_EQ(parsed.error().code, ErrorCode::kTruncated) << size;
  }
}

// Every bit pattern of every byte: an error, or exactly the tensors that were written.
TEST(Pt, AFlippedByteIsFoundOrHarmless) {
  const TemporaryFolder folder;
  const auto a = test::sample_tensor(DType::kF8E5M2, test::sample_layouts()[3]);
  const auto b = test::sample_tensor(DType::kF32, test::sample_layouts()[2]);
  ASSERT_TRUE(write_pt(folder / "x", {{{"a", a.view()}, {"b", b.view()}}}).ok());
  const auto file = test::bytes_of_file(folder / "x");
  for (size_t i = 0; i < file.size(); ++i)
    for (unsigned flip : {1u, 2u, 4u, 8u, 16u, 32u, 64u, 128u, 255u}) {
      auto copy = file;
      copy[i] ^= static_cast<std::byte>(flip);
      const auto parsed = parse_pt(copy);
      if (!parsed.ok()) continue;
      ASSERT_EQ(parsed->tensors.size(), 2u) << i;
      EXPECT_EQ(parsed->tensors[0].dtype, a.dtype);
      EXPECT_EQ(parsed->tensors[0].shape, a.shape);
      EXPECT_EQ(logical_bytes(parsed->tensors[0].view()), logical_bytes(a.view())) << i;
      EXPECT_EQ(logical_bytes(parsed->tensors[1].view()), logical_bytes(b.view())) << i;
    }
}

}  // namespace
}  // namespace ttap
