#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "core/crc32c.h"
#include "format/frame.h"
#include "scratch.h"
#include "store/segment/segment_writer.h"
#include "ttap/fingerprint.h"
#include "ttap/run.h"

namespace ttap {
namespace {

const std::vector<int64_t> kShape = {2, 3};

TensorRecord record_of(std::string_view name, std::span<const float> values, uint32_t event = kNoEvent) {
  TensorRecord record;
  record.name = name;
  record.event = event;
  record.dtype = DType::kF32;
  record.shape = kShape;
  record.byte_count = values.size_bytes();
  record.has_fingerprint = true;
  record.fingerprint = fingerprint({values.data(), DType::kF32, kShape, {}});
  record.has_bytes = true;
  return record;
}

// Three tensors of six floats: `a`, `b`, and `c`, which has the bytes of `a`.
std::filesystem::path write_sample(const std::filesystem::path& directory, Ending ending = Ending::kComplete) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const std::vector<float> b = {-1, 0, 1, 2, 3, 4};
  const auto path = directory / "pass00007.ttap";
  auto writer = SegmentWriter::create(path, 7, 123, R"({"program":{}})", {});
  EXPECT_TRUE(writer.ok());
  writer->add_event(0, {.name = "a", .kind = "op", .stack = "main.py:1"});
  writer->add_tensor(record_of("a", a, 0), 10, std::as_bytes(std::span(a)));
  EXPECT_FALSE(writer->flush().error);
  writer->add_event(1, {.name = "b", .kind = "op", .parent = 0, .stack = {}});
  writer->add_tensor(record_of("b", b, 1), 20, std::as_bytes(std::span(b)));
  writer->add_tensor(record_of("c", a, 1), 30, std::as_bytes(std::span(a)));
  EXPECT_FALSE(writer->flush().error);
  EXPECT_TRUE(writer->finish(to_json(EndRecord{.ending = ending, .drops = {.quota = 3}}), {}).ok());
  return path;
}

std::vector<float> values_of(const Pass& pass, const char* name) {
  const auto index = pass.find({.name = name});
  if (!index) return {};
  const auto view = pass.read(*index);
  if (!view.ok()) return {};
  std::vector<float> values(element_count(*view));
  std::memcpy(values.data(), view->data, values.size() * sizeof(float));
  return values;
}

TEST(Segment, ReadsBackWhatWasWritten) {
  const ScratchDirectory scratch;
  const auto pass = Pass::open(write_sample(scratch.path(), Ending::kAborted));
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(pass->info().number, 7u);
  EXPECT_EQ(pass->info().ending, Ending::kAborted);
  EXPECT_EQ(pass->info().drops.quota, 3u);
  EXPECT_EQ(pass->info().started_unix_ns, 123u);
  EXPECT_EQ(pass->info().problem, "");
  EXPECT_EQ(pass->info().readable_bytes, pass->info().file_bytes);
  ASSERT_EQ(pass->event_count(), 2u);
  EXPECT_EQ(pass->event(0).stack, "main.py:1");
  EXPECT_EQ(pass->event(1).parent, 0u);
  ASSERT_EQ(pass->tensor_count(), 3u);
  EXPECT_EQ(pass->tensor(2).name, "c");
  EXPECT_EQ(pass->tensor(2).event, 1u);
  EXPECT_EQ(values_of(*pass, "a"), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values_of(*pass, "b"), (std::vector<float>{-1, 0, 1, 2, 3, 4}));
  EXPECT_EQ(values_of(*pass, "c"), values_of(*pass, "a"));
  EXPECT_FALSE(pass->find({.name = "a", .call = 2}));
  EXPECT_FALSE(pass->find({.name = "nobody"}));
}

TEST(Segment, StoresTheSameBytesOnce) {
  const ScratchDirectory scratch;
  const auto pass = Pass::open(write_sample(scratch.path()));
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(pass->read(0)->data, pass->read(2)->data);
  EXPECT_NE(pass->read(0)->data, pass->read(1)->data);
}

TEST(Segment, IsNamedIncompleteWhileItIsWritten) {
  const ScratchDirectory scratch;
  const auto final_name = scratch / "pass00000.ttap";
  auto writer = SegmentWriter::create(final_name, 0, 0, "{}", {});
  ASSERT_TRUE(writer.ok());
  EXPECT_FALSE(std::filesystem::exists(final_name));
  const auto pass = Pass::open(scratch / "pass00000.ttap.incomplete");
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(pass->info().ending, Ending::kIncomplete);
  EXPECT_TRUE(pass->info().being_written);
  ASSERT_TRUE(writer->finish("{}", {}).ok());
  EXPECT_TRUE(std::filesystem::exists(final_name));
}

TEST(Segment, WritesALargeBlobInPiecesAndTakesADuplicateBack) {
  const ScratchDirectory scratch;
  const std::vector<float> values = {9, 8, 7, 6, 5, 4};
  const auto bytes = std::as_bytes(std::span(values));
  auto writer = SegmentWriter::create(scratch / "pass00000.ttap", 0, 0, "{}", {});
  ASSERT_TRUE(writer.ok());
  uint64_t after_first = 0;
  for (const char* name : {"first", "second"}) {
    ASSERT_TRUE(writer->begin_large(bytes.size()).ok());
    ASSERT_TRUE(writer->write_large(bytes.first(8)).ok());
    ASSERT_TRUE(writer->write_large(bytes.subspan(8)).ok());
    const uint64_t before = writer->file_bytes();
    writer->add_tensor_of_large(record_of(name, values), 0);
    if (after_first > 0) {
      EXPECT_EQ(writer->file_bytes(), before) << "the duplicate blob stayed in the file";
    }
    ASSERT_FALSE(writer->flush().error);
    after_first = writer->file_bytes();
  }
  ASSERT_TRUE(writer->finish("{}", {}).ok());
  const auto pass = Pass::open(scratch / "pass00000.ttap");
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(values_of(*pass, "first"), values);
  EXPECT_EQ(values_of(*pass, "second"), values);
}

TEST(Segment, LostEventsHaveNoNumberAndNobodyRefersToThem) {
  const ScratchDirectory scratch;
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  auto writer = SegmentWriter::create(scratch / "pass00000.ttap", 0, 0, "{}", {});
  ASSERT_TRUE(writer.ok());
  writer->add_event(0, {.name = "zero", .kind = "op", .stack = {}});
  writer->add_event(3, {.name = "three", .kind = "op", .parent = 2, .stack = {}});  // 1 and 2 never came
  writer->add_event(4, {.name = "four", .kind = "op", .parent = 3, .stack = {}});
  writer->add_event(9, {.name = "nine", .kind = "op", .parent = 9, .stack = {}});  // nobody is his own parent
  writer->add_tensor(record_of("of two", values, 2), 0, std::as_bytes(std::span(values)));
  writer->add_tensor(record_of("of nine", values, 9), 0, std::as_bytes(std::span(values)));
  ASSERT_FALSE(writer->flush().error);
  ASSERT_TRUE(writer->finish("{}", {}).ok());
  const auto pass = Pass::open(scratch / "pass00000.ttap");
  ASSERT_TRUE(pass.ok());
  ASSERT_EQ(pass->event_count(), 4u);
  EXPECT_EQ(pass->event(1).name, "three");
  EXPECT_EQ(pass->event(1).parent, kNoEvent);
  EXPECT_EQ(pass->event(2).parent, 1u);
  EXPECT_EQ(pass->event(3).parent, kNoEvent);
  ASSERT_EQ(pass->tensor_count(), 2u);
  EXPECT_EQ(pass->tensor(0).event, kNoEvent);
  EXPECT_EQ(pass->tensor(1).event, 3u);
}

TEST(Segment, NeverReplacesAPassThatIsThere) {
  const ScratchDirectory scratch;
  const auto path = write_sample(scratch.path());
  EXPECT_FALSE(SegmentWriter::create(path, 7, 0, "{}", {}).ok());
  // Nor one that appeared while this one was written.
  auto writer = SegmentWriter::create(scratch / "pass00008.ttap", 8, 0, "{}", {});
  ASSERT_TRUE(writer.ok());
  std::filesystem::rename(path, scratch / "pass00008.ttap");
  EXPECT_FALSE(writer->finish("{}", {}).ok());
  EXPECT_EQ(Pass::open(scratch / "pass00008.ttap")->tensor_count(), 3u);
}

// ---- bytes in another pass ----

TEST(Segment, ARowMayHaveItsBytesInAnotherPass) {
  const ScratchDirectory scratch;
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  auto writer = SegmentWriter::create(scratch / "pass00008.ttap", 8, 0, "{}", {});
  ASSERT_TRUE(writer.ok());
  writer->add_tensor_elsewhere(record_of("a", a), 0, 7);
  writer->add_alias_row("also");
  EXPECT_FALSE(writer->flush().error);
  ASSERT_TRUE(writer->finish("{}", {}).ok());
  const auto alone = Pass::open(scratch / "pass00008.ttap");
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(alone->info().problem, "");
  EXPECT_FALSE(alone->tensor(0).has_bytes);
  EXPECT_EQ(alone->read(0).error().code, ErrorCode::kNotRecorded);
  EXPECT_EQ(alone->file_offset(0), std::nullopt);
  write_sample(scratch.path());
  const auto both = Pass::open(scratch / "pass00008.ttap");
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(values_of(*both, "a"), a);
  EXPECT_EQ(values_of(*both, "also"), a);
  EXPECT_TRUE(both->tensor(0).has_bytes);
}

// What the reader says of a row that somebody made, of pass 7, with every checksum right.
std::string problem_with(const std::function<void(format::TensorRow&)>& change) {
  const ScratchDirectory scratch;
  auto bytes = read_file(write_sample(scratch.path()));
  format::FrameHeader header{};
  size_t at = 64;
  for (;; at += 64 + format::align_up(header.payload_bytes)) {
    std::memcpy(&header, bytes.data() + at, sizeof header);
    if (header.type == static_cast<uint16_t>(format::FrameType::kTensors)) break;
  }
  format::TensorRow row;
  std::memcpy(&row, bytes.data() + at + sizeof header, sizeof row);
  change(row);
  std::memcpy(bytes.data() + at + sizeof header, &row, sizeof row);
  header.payload_crc = crc32c(std::span(bytes).subspan(at + sizeof header, header.payload_bytes));
  header.header_crc = crc32c(std::as_bytes(std::span(&header, 1)).first(60));
  std::memcpy(bytes.data() + at, &header, sizeof header);
  bytes.resize(bytes.size() - 64);
  write_file(scratch / "hostile.ttap", bytes);
  return Pass::open(scratch / "hostile.ttap")->info().problem;
}

TEST(SegmentErrors, BytesInAnotherPassAreNotHereToo) {
  const uint8_t there = format::kHasFingerprint | format::kElsewhere;
  EXPECT_EQ(problem_with([&](auto& row) { row.flags = there, row.blob_offset = 3; }), "");
  EXPECT_NE(problem_with([&](auto& row) { row.flags = there | format::kHasBytes, row.blob_offset = 64; }), "");
  EXPECT_NE(problem_with([&](auto& row) { row.flags = there, row.blob_offset = 7; }), "") << "its own pass";
  EXPECT_NE(problem_with([&](auto& row) { row.flags = there, row.blob_offset = uint64_t{1} << 32; }), "");
  EXPECT_NE(problem_with([&](auto& row) { row.flags = format::kElsewhere, row.blob_offset = 3; }), "") << "no hash";
}

// ---- damage ----

// Whatever a damaged file still gives must be what was recorded.
void expect_only_true_data(const std::filesystem::path& path, const std::string& what) {
  static const std::map<std::string, std::vector<float>, std::less<>> kTruth = {
      {"a", {1, 2, 3, 4, 5, 6}}, {"b", {-1, 0, 1, 2, 3, 4}}, {"c", {1, 2, 3, 4, 5, 6}}};
  const auto pass = Pass::open(path);
  if (!pass.ok()) return;
  for (size_t i = 0; i < pass->tensor_count(); ++i) {
    const TensorRecord record = pass->tensor(i);
    const auto truth = kTruth.find(record.name);
    ASSERT_NE(truth, kTruth.end()) << what << ": a name that was never recorded";
    ASSERT_TRUE(std::ranges::equal(record.shape, kShape)) << what;
    const auto view = pass->read(i);
    if (!view.ok()) continue;
    ASSERT_EQ(byte_count(*view), 24u) << what;
    ASSERT_EQ(std::memcmp(view->data, truth->second.data(), 24), 0) << what << ": wrong bytes returned as sound";
  }
}

TEST(SegmentDamage, TruncatedAnywhereItGivesWhatIsLeft) {
  const ScratchDirectory scratch;
  const auto bytes = read_file(write_sample(scratch.path()));
  const auto path = scratch / "cut.ttap";
  size_t last_count = 0;
  for (size_t size = 0; size < bytes.size(); ++size) {
    write_file(path, std::span(bytes).first(size));
    expect_only_true_data(path, "cut to " + std::to_string(size));
    const auto pass = Pass::open(path);
    if (!pass.ok()) {
      EXPECT_LT(size, 64u) << pass.error().describe();
      continue;
    }
    EXPECT_GE(pass->tensor_count(), last_count) << "a longer file gave fewer tensors at " << size;
    last_count = pass->tensor_count();
    EXPECT_LE(pass->info().readable_bytes, size);
    if (pass->info().readable_bytes < size) {
      EXPECT_NE(pass->info().problem, "");
    }
  }
  EXPECT_EQ(last_count, 3u);
}

TEST(SegmentDamage, WithAnyByteFlippedItReturnsAnErrorOrTheTruth) {
  const ScratchDirectory scratch;
  auto bytes = read_file(write_sample(scratch.path()));
  const auto path = scratch / "flipped.ttap";
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const int mask : {0x01, 0x80, 0xFF}) {
      bytes[at] ^= std::byte(mask);
      write_file(path, bytes);
      expect_only_true_data(path, "byte " + std::to_string(at));
      bytes[at] ^= std::byte(mask);
    }
  }
}

TEST(SegmentDamage, FlippedTensorBytesAreNamedCorrupt) {
  const ScratchDirectory scratch;
  const auto path = write_sample(scratch.path());
  auto bytes = read_file(path);
  const float needle[] = {1, 2, 3};
  const auto wanted = std::as_bytes(std::span(needle));
  const auto found = std::search(bytes.begin(), bytes.end(), wanted.begin(), wanted.end());
  ASSERT_NE(found, bytes.end());
  *found ^= std::byte{1};
  write_file(path, bytes);
  const auto pass = Pass::open(path);
  ASSERT_TRUE(pass.ok());
  const auto view = pass->read(0);
  ASSERT_FALSE(view.ok());
  EXPECT_EQ(view.error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(pass->read(1).ok()) << "the other tensors are still good";
}

TEST(SegmentDamage, ReadsByScanningWhenTheIndexIsGone) {
  const ScratchDirectory scratch;
  const auto path = write_sample(scratch.path());
  auto bytes = read_file(path);
  bytes[bytes.size() - 20] ^= std::byte{1};  // in the trailer
  write_file(path, bytes);
  const auto pass = Pass::open(path);
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(pass->tensor_count(), 3u);
  EXPECT_EQ(pass->info().ending, Ending::kComplete);
}

TEST(SegmentErrors, EachCauseHasItsCode) {
  const ScratchDirectory scratch;
  const auto path = write_sample(scratch.path());
  const auto good = read_file(path);
  const auto code_of = [&](std::vector<std::byte> bytes) {
    write_file(path, bytes);
    const auto pass = Pass::open(path);
    EXPECT_FALSE(pass.ok());
    EXPECT_EQ(pass.error().path, path.string());
    return pass.error().code;
  };
  EXPECT_EQ(Pass::open(scratch / "nothing.ttap").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(code_of({good.begin(), good.begin() + 20}), ErrorCode::kTruncated);
  auto header_damaged = good;
  header_damaged[16] ^= std::byte{1};
  EXPECT_EQ(code_of(header_damaged), ErrorCode::kCorrupt);
}

TEST(Torn, AProcessKilledAsAPassBeganLeavesAnEmptyPass) {
  const ScratchDirectory scratch;
  const auto whole = read_file(write_sample(scratch.path()));
  for (const size_t size : {0u, 3u, 8u, 20u}) {
    const auto torn = scratch / "pass00003.ttap.incomplete";
    write_file(torn, std::span(whole).first(size));
    const auto pass = Pass::open(torn);
    ASSERT_TRUE(pass.ok()) << size << ": " << pass.error().describe();
    EXPECT_EQ(pass->tensor_count(), 0u);
    EXPECT_EQ(pass->info().number, 3u);
    EXPECT_EQ(pass->info().ending, Ending::kIncomplete);
    EXPECT_EQ(pass->info().problem, "the process ended as the pass began");
    // A finished file has no such excuse, nor has another kind of file.
    write_file(scratch / "pass00004.ttap", std::span(whole).first(size));
    EXPECT_FALSE(Pass::open(scratch / "pass00004.ttap").ok());
  }
  write_file(scratch / "pass00005.ttap.incomplete", std::as_bytes(std::span("PK")));
  EXPECT_FALSE(Pass::open(scratch / "pass00005.ttap.incomplete").ok());
}

// ---- recovery ----

TEST(Recovery, CutsTheTornTailAndFinishesTheFile) {
  const ScratchDirectory scratch;
  const auto whole = read_file(write_sample(scratch.path()));
  for (const size_t size : {whole.size() - 64, whole.size() - 100, whole.size() - 700, whole.size() / 2}) {
    const auto torn = scratch / "pass00001.ttap.incomplete";
    write_file(torn, std::span(whole).first(size));
    const auto before = Pass::open(torn);
    ASSERT_TRUE(before.ok());
    const size_t tensors = before->tensor_count();
    const auto recovered = recover_pass(torn);
    ASSERT_TRUE(recovered.ok()) << recovered.error().describe();
    EXPECT_EQ(recovered->tensors, tensors);
    EXPECT_FALSE(std::filesystem::exists(torn));
    const auto after = Pass::open(recovered->path);
    ASSERT_TRUE(after.ok());
    EXPECT_EQ(after->info().problem, "");
    EXPECT_EQ(after->tensor_count(), tensors);
    expect_only_true_data(recovered->path, "recovered from " + std::to_string(size));
    // The end record had been written in the first two: what it says is kept.
    const bool had_end = before->info().ending == Ending::kComplete;
    EXPECT_EQ(after->info().ending, had_end ? Ending::kComplete : Ending::kIncomplete);
    std::filesystem::remove(recovered->path);
  }
}

TEST(Recovery, MendsAFileWhoseIndexIsGoneAndWhoseTrailerIsNot) {
  const ScratchDirectory scratch;
  auto bytes = read_file(write_sample(scratch.path()));
  uint64_t index_offset = 0;
  std::memcpy(&index_offset, bytes.data() + bytes.size() - 56, sizeof index_offset);
  bytes[index_offset + 70] ^= std::byte{1};
  const auto torn = scratch / "pass00001.ttap.incomplete";
  write_file(torn, bytes);
  const auto recovered = recover_pass(torn);
  ASSERT_TRUE(recovered.ok()) << recovered.error().describe();
  const auto pass = Pass::open(recovered->path);
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(pass->info().problem, "");
  EXPECT_EQ(pass->tensor_count(), 3u);
}

TEST(Recovery, DoesNotReplaceWhatIsThere) {
  const ScratchDirectory scratch;
  const auto whole = read_file(write_sample(scratch.path()));
  const auto torn = scratch / "pass00007.ttap.incomplete";
  write_file(torn, std::span(whole).first(whole.size() / 2));
  EXPECT_FALSE(recover_pass(torn).ok());
  EXPECT_EQ(read_file(scratch / "pass00007.ttap"), whole);
}

TEST(Recovery, RefusesWhileTheFileIsBeingWritten) {
  const ScratchDirectory scratch;
  auto writer = SegmentWriter::create(scratch / "pass00000.ttap", 0, 0, "{}", {});
  ASSERT_TRUE(writer.ok());
  const auto recovered = recover_pass(scratch / "pass00000.ttap.incomplete");
  ASSERT_FALSE(recovered.ok());
  EXPECT_NE(recovered.error().message.find("still writing"), std::string::npos);
}

TEST(Recovery, RefusesWhatIsNotIncomplete) {
  const ScratchDirectory scratch;
  const auto recovered = recover_pass(write_sample(scratch.path()));
  ASSERT_FALSE(recovered.ok());
  EXPECT_EQ(recovered.error().code, ErrorCode::kInvalidArgument);
}

// ---- run directories ----

TEST(RunDirectory, IsARunARankOrAPass) {
  const ScratchDirectory scratch;
  const auto rank = scratch / "rank3_pid42";
  std::filesystem::create_directory(rank);
  const auto file = write_sample(rank);
  for (const auto& path :
       {scratch.path(), std::filesystem::path(rank), std::filesystem::path(rank.string() + "/"), file}) {
    const auto run = Run::open(path);
    ASSERT_TRUE(run.ok()) << path << ": " << run.error().describe();
    ASSERT_EQ(run->ranks.size(), 1u);
    EXPECT_EQ(run->ranks[0].number, 3u);
    EXPECT_EQ(run->ranks[0].pid, 42);
    ASSERT_EQ(run->ranks[0].passes.size(), 1u);
    EXPECT_EQ(run->ranks[0].passes[0].number, 7u);
  }
}

TEST(RunDirectory, SaysWhenNothingIsThere) {
  const ScratchDirectory scratch;
  const auto empty = Run::open(scratch.path());
  ASSERT_FALSE(empty.ok());
  EXPECT_EQ(empty.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Run::open(scratch / "missing").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace ttap
