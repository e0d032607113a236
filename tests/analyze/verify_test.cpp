#include "analyze/check/verify.h"

#include <gtest/gtest.h>

#include "scratch.h"
#include "store/segment/segment_writer.h"
#include "ttap/fingerprint.h"

namespace ttap {
namespace {

namespace fs = std::filesystem;

// Pass 0 holds `w`; pass 1 refers to it there and holds `x`; both hold a tensor of which only metadata was kept.
class Verify : public testing::Test {
 protected:
  void SetUp() override {
    for (const uint32_t number : {0u, 1u}) {
      auto writer = SegmentWriter::create(path_of(number), number, 0, "{}", {});
      ASSERT_TRUE(writer.ok());
      if (number == 1) writer->add_tensor_elsewhere(record("w", weight_), 0, 0);
      TensorRecord kept = record(number == 0 ? "w" : "x", number == 0 ? weight_ : other_);
      kept.has_bytes = true;
      writer->add_tensor(kept, 0, std::as_bytes(std::span(number == 0 ? weight_ : other_)));
      TensorRecord plain = record("y", other_);
      plain.level = Level::kMeta;
      writer->add_tensor(plain, 0, {});
      ASSERT_FALSE(writer->flush().error);
      ASSERT_TRUE(writer->finish(to_json(EndRecord{}), {}).ok());
    }
  }

  fs::path path_of(uint32_t number) const { return scratch_ / ("pass0000" + std::to_string(number) + ".ttap"); }
  TensorRecord record(std::string_view name, const std::vector<float>& values) const {
    TensorRecord made;
    made.name = name;
    made.shape = shape_;
    made.byte_count = values.size() * sizeof(float);
    made.has_fingerprint = true;
    made.fingerprint = fingerprint({values.data(), DType::kF32, shape_, {}});
    return made;
  }
  Pass second() const { return Pass::open(path_of(1)).value(); }

  // That the second pass is told to miss the bytes of `w`, in words about the first.
  void expect_missing(const std::string& words) const {
    const Pass pass = second();
    ASSERT_EQ(pass.info().notes.size(), 1u);
    EXPECT_NE(pass.info().notes[0].find("in pass 0, which " + words), std::string::npos) << pass.info().notes[0];
    EXPECT_EQ(pass.missing_from(*pass.find({.name = "w"})), 0u);
    const VerifyReport report = verify_bytes(pass);
    EXPECT_EQ(report.tensors, 1u);
    EXPECT_EQ(report.without_bytes, 1u);
    ASSERT_EQ(report.damaged.size(), 1u);
    EXPECT_EQ(report.damaged[0].tensor, *pass.find({.name = "w"}));
    EXPECT_NE(report.damaged[0].error.describe().find("pass 0"), std::string::npos);
    const auto exported = export_pass(pass, Format::kSafetensors, scratch_ / "out");
    ASSERT_TRUE(exported.ok());
    EXPECT_EQ(exported->without_bytes, 2u);
    EXPECT_EQ(exported->missing, 1u);
  }

  const ScratchDirectory scratch_;
  const std::vector<int64_t> shape_ = {1024};
  const std::vector<float> weight_ = std::vector<float>(1024, 1), other_ = std::vector<float>(1024, 2);
};

TEST_F(Verify, ReadsBytesOfAnotherPassThere) {
  const Pass pass = second();
  EXPECT_TRUE(pass.info().notes.empty());
  for (size_t i = 0; i < pass.tensor_count(); ++i) EXPECT_FALSE(pass.missing_from(i));
  const VerifyReport report = verify_bytes(pass);
  EXPECT_EQ(report.tensors, 2u);
  EXPECT_EQ(report.without_bytes, 1u);
  EXPECT_TRUE(report.damaged.empty());
}

TEST_F(Verify, SaysThatTheOtherPassIsNotHere) {
  fs::remove(path_of(0));
  expect_missing("is not here");
}

TEST_F(Verify, SaysThatTheOtherPassIsNoSegment) {
  write_file(path_of(0), std::vector<std::byte>(500, std::byte{7}));
  expect_missing("cannot be read");
}

TEST_F(Verify, SaysThatTheOtherPassIsAFolder) {
  fs::remove(path_of(0));
  fs::create_directory(path_of(0));
  expect_missing("cannot be read");
}

TEST_F(Verify, SaysThatTheOtherPassIsCutShort) {
  fs::resize_file(path_of(0), 400);
  expect_missing("is damaged");
}

TEST_F(Verify, FindsDamageInTheOtherPass) {
  auto bytes = read_file(path_of(0));
  const uint64_t at = *Pass::open(path_of(0))->file_offset(0);
  bytes[at + 100] ^= std::byte{1};
  write_file(path_of(0), bytes);
  const VerifyReport report = verify_bytes(second());
  EXPECT_EQ(report.tensors, 1u);
  ASSERT_EQ(report.damaged.size(), 1u);
  EXPECT_EQ(report.damaged[0].error.path, path_of(0).string());
}

}  // namespace
}  // namespace ttap
