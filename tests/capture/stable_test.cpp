// Tensors that are the same in most passes: their bytes are kept once.
#include <gtest/gtest.h>

#include "capture/recording.h"
#include "scratch.h"

namespace ttap {
namespace {

namespace fs = std::filesystem;

constexpr size_t kCount = 1 << 16;
const std::vector<int64_t> kLong = {kCount};

std::vector<float> weight(float first) {
  std::vector<float> values(kCount, 1);
  values[0] = first;
  return values;
}
TensorView view_of_long(const std::vector<float>& values) { return {values.data(), DType::kF32, kLong, {}}; }

void record(Recorder& recorder, const std::vector<float>& values, Ending ending = Ending::kComplete) {
  recorder.begin_pass();
  recorder.capture("w", view_of_long(values), {.stable = true});
  recorder.capture("x", view_of(eight(3)));
  recorder.end_pass(ending);
}

fs::path file_of(const Recorder& recorder, int number) { return open_pass(recorder, number).info().path; }
bool is_small(const Recorder& recorder, int number) { return fs::file_size(file_of(recorder, number)) < 16 << 10; }

TEST(StableBytes, OfAnEarlierPassAreNotWrittenAgain) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  ASSERT_TRUE(recorder->add_alias("w", "tied").ok());
  for (const float first : {1.0F, 1.0F, 2.0F, 1.0F}) {
    record(*recorder, weight(first));
    ASSERT_TRUE(recorder->flush().ok());  // else the pass before may not have ended yet
  }
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_FALSE(is_small(*recorder, 0));
  EXPECT_TRUE(is_small(*recorder, 1));
  EXPECT_FALSE(is_small(*recorder, 2)) << "it has changed";
  EXPECT_TRUE(is_small(*recorder, 3));
  EXPECT_EQ(recorder->report().deduplicated, 4u + 2u) << "two tensors of two passes, and an alias each of the others";
  for (int number = 0; number < 4; ++number)
    for (const char* name : {"w", "tied"}) {
      const Pass pass = open_pass(*recorder, number);
      const TensorRecord found = pass.tensor(*pass.find({.name = name}));
      EXPECT_TRUE(found.has_bytes);
      EXPECT_EQ(found.level, Level::kFull);
      EXPECT_EQ(values_of(pass, {.name = name}), weight(number == 2 ? 2.0F : 1.0F)) << number;
      EXPECT_EQ(pass.info().problem, "");
      EXPECT_TRUE(pass.info().notes.empty());
    }
}

TEST(StableBytes, OfAPassThatIsOpenOrDidNotEndWellAreWrittenAgain) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  record(*recorder, weight(1), Ending::kAborted);
  ASSERT_TRUE(recorder->flush().ok());
  const uint32_t open = recorder->open_pass(), other = recorder->open_pass();
  for (const uint32_t pass : {open, other})
    recorder->capture(recorder->begin_event({.name = "w", .pass = pass}), view_of_long(weight(1)), {.stable = true});
  recorder->close_pass(open);
  recorder->close_pass(other);
  ASSERT_TRUE(recorder->close().ok());
  for (int number = 0; number < 3; ++number) EXPECT_FALSE(is_small(*recorder, number)) << number;
}

TEST(StableBytes, OfAPassThatIsGoneAreWrittenAgain) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path()});
  for (int number = 0; number < 2; ++number) {
    record(*recorder, weight(1));
    ASSERT_TRUE(recorder->flush().ok());
    if (number == 0) fs::remove(file_of(*recorder, 0));
  }
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(values_of(open_pass(*recorder, 1), {.name = "w"}), weight(1));
}

TEST(StableBytes, ThatWereNotKeptAreNotReferredTo) {
  const ScratchDirectory scratch;
  auto recorder = make({.directory = scratch.path(), .quota_bytes = 100 << 10});
  for (int number = 0; number < 2; ++number) {
    record(*recorder, weight(1));
    ASSERT_TRUE(recorder->flush().ok());
  }
  ASSERT_TRUE(recorder->close().ok());
  EXPECT_EQ(recorder->report().drops.quota, 2u);
  for (int number = 0; number < 2; ++number) {
    const Pass pass = open_pass(*recorder, number);
    EXPECT_FALSE(pass.tensor(*pass.find({.name = "w"})).has_bytes);
  }
}

TEST(StableBytes, AreInEveryPassOfOtherFormatsAndWithoutDeduplication) {
  for (const bool deduplicates : {true, false}) {
    const ScratchDirectory scratch;
    const Format format = deduplicates ? Format::kSafetensors : Format::kSegment;
    auto recorder = make({.directory = scratch.path(), .format = format, .deduplicate = deduplicates});
    for (int number = 0; number < 2; ++number) {
      record(*recorder, weight(1));
      ASSERT_TRUE(recorder->flush().ok());
    }
    ASSERT_TRUE(recorder->close().ok());
    const auto second = recorder->rank_directory() / (deduplicates ? "pass00001.safetensors" : "pass00001.ttap");
    const auto pass = Pass::open(second);
    ASSERT_TRUE(pass.ok()) << pass.error().describe();
    EXPECT_EQ(values_of(*pass, {.name = "w"}), weight(1));
    EXPECT_GT(fs::file_size(second), kCount * sizeof(float));
  }
}

// Whether the pass before had ended when the tensor was captured, or only when it was written.
TEST(StableBytes, LargerAndSmallerThanTheStagingMemoryWithAndWithoutWaiting) {
  for (const uint64_t staging : {64 << 10, 4 << 20})
    for (const bool waits : {true, false}) {
      const ScratchDirectory scratch;
      auto recorder = make({.directory = scratch.path(), .staging_bytes = staging});
      for (int number = 0; number < 3; ++number) {
        record(*recorder, weight(1));
        if (waits) {
          ASSERT_TRUE(recorder->flush().ok());
        }
      }
      ASSERT_TRUE(recorder->close().ok());
      for (const int number : {1, 2}) {
        EXPECT_TRUE(is_small(*recorder, number)) << staging << waits;
        EXPECT_EQ(values_of(open_pass(*recorder, number), {.name = "w"}), weight(1));
      }
    }
}

// Two passes, of which the second refers to the first; the path of the second.
fs::path record_two(const ScratchDirectory& scratch) {
  auto recorder = make({.directory = scratch.path()});
  for (int number = 0; number < 2; ++number) {
    record(*recorder, weight(1));
    EXPECT_TRUE(recorder->flush().ok());
  }
  EXPECT_TRUE(recorder->close().ok());
  return recorder->rank_directory() / "pass00001.ttap";
}

TEST(StableBytes, OfAPassThatIsNotThereAreSaidToBeThere) {
  const ScratchDirectory scratch;
  const auto second = record_two(scratch);
  fs::copy_file(second, scratch / "alone.ttap");
  const auto pass = Pass::open(scratch / "alone.ttap");
  ASSERT_TRUE(pass.ok());
  ASSERT_EQ(pass->info().notes.size(), 1u);
  EXPECT_NE(pass->info().notes[0].find("pass 0"), std::string::npos);
  const size_t weight_at = *pass->find({.name = "w"});
  EXPECT_FALSE(pass->tensor(weight_at).has_bytes);
  EXPECT_TRUE(pass->tensor(weight_at).has_fingerprint);
  const auto read = pass->read(weight_at);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kNotRecorded);
  EXPECT_NE(read.error().describe().find("pass 0"), std::string::npos);
  EXPECT_EQ(values_of(*pass, {.name = "x"}), eight(3));
  const auto exported = export_pass(*pass, Format::kSafetensors, scratch / "out");
  ASSERT_TRUE(exported.ok()) << exported.error().describe();
  EXPECT_EQ(exported->without_bytes, 1u);
}

TEST(StableBytes, AreExportedFromWhereTheyAre) {
  const ScratchDirectory scratch;
  const auto pass = Pass::open(record_two(scratch));
  ASSERT_TRUE(pass.ok());
  const auto exported = export_pass(*pass, Format::kPt, scratch / "out");
  ASSERT_TRUE(exported.ok()) << exported.error().describe();
  EXPECT_EQ(exported->without_bytes, 0u);
  EXPECT_EQ(values_of(*Pass::open(exported->path), {.name = "w"}), weight(1));
}

TEST(StableBytes, ThatWereDamagedWhereTheyAreAreNotHandedOut) {
  const ScratchDirectory scratch;
  const auto second = record_two(scratch);
  const auto first = second.parent_path() / "pass00000.ttap";
  auto bytes = read_file(first);
  bytes[bytes.size() / 2] ^= std::byte{1};
  write_file(first, bytes);
  const auto pass = Pass::open(second);
  ASSERT_TRUE(pass.ok());
  const auto read = pass->read(*pass->find({.name = "w"}));
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(read.error().path, first.string());
}

// A pass of the same number that has other bytes: of another run, say.
TEST(StableBytes, AreNotTakenFromAPassThatHasOthers) {
  const ScratchDirectory scratch, other;
  const auto second = record_two(scratch);
  auto recorder = make({.directory = other.path()});
  record(*recorder, weight(7));
  ASSERT_TRUE(recorder->close().ok());
  fs::copy_file(file_of(*recorder, 0), second.parent_path() / "pass00000.ttap", fs::copy_options::overwrite_existing);
  const auto pass = Pass::open(second);
  ASSERT_TRUE(pass.ok());
  EXPECT_FALSE(pass->tensor(*pass->find({.name = "w"})).has_bytes);
  EXPECT_FALSE(pass->read(*pass->find({.name = "w"})).ok());
}

}  // namespace
}  // namespace ttap
