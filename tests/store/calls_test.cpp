// Calls and uses in a segment: written, lost, torn, damaged, and made by somebody hostile.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "core/crc32c.h"
#include "format/layout.h"
#include "scratch.h"
#include "store/sample_calls.h"

namespace ttap {
namespace {

using test::two_floats;
using test::write_calls;

TEST(SegmentCalls, ReadBackAsTheyWereWritten) {
  const ScratchDirectory scratch;
  const auto pass = Pass::open(write_calls(scratch.path()));
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(pass->info().problem, "");
  const EventRecord outer = pass->event(0), first = pass->event(1), second = pass->event(2);
  EXPECT_TRUE(outer.returned && first.returned && second.returned);
  EXPECT_EQ(outer.duration_ns, 99u);
  EXPECT_EQ(outer.use_count, 0u);
  EXPECT_EQ(first.arguments, "%0, 1");
  EXPECT_EQ(first.forward, kNoEvent);
  EXPECT_EQ(second.arguments, "self=%0");
  EXPECT_EQ(second.results, "%1");
  EXPECT_EQ(second.notes, R"({"hook": 1})");
  EXPECT_EQ(second.forward, 1u);
  EXPECT_EQ(second.duration_ns, 22u);
  ASSERT_EQ(second.use_count, 2u);
  const UseRecord self = pass->use(2, 0);
  EXPECT_EQ(self.role, "in");
  EXPECT_EQ(self.path, "/self");
  EXPECT_EQ(self.tensor, 4u);
  EXPECT_EQ(self.record, 0u) << "the record of the op that made it";
  EXPECT_TRUE(self.written);
  EXPECT_EQ(pass->use(1, 0).record, kNoNumber);
  EXPECT_EQ(pass->use(2, 1).record, 1u);
}

TEST(SegmentCalls, AreNotWrittenForEventsThatWereLost) {
  const ScratchDirectory scratch;
  auto writer = SegmentWriter::create(scratch / "pass00000.ttap", 0, 0, "{}", {});
  ASSERT_TRUE(writer.ok());
  writer->add_event(0, {.name = "zero", .kind = "op", .stack = {}});
  writer->add_event(2, {.name = "two", .kind = "op", .stack = {}});
  EXPECT_TRUE(writer->has_event(2));
  EXPECT_FALSE(writer->has_event(1));
  EXPECT_FALSE(writer->add_call(1, {.arguments = "lost"}));
  EXPECT_FALSE(writer->add_call(7, {.arguments = "never began"}));
  EXPECT_TRUE(writer->add_call(2, {.arguments = "two", .forward = 1}));
  EXPECT_FALSE(writer->add_call(2, {.arguments = "again"}));
  ASSERT_FALSE(writer->flush().error);
  EXPECT_FALSE(writer->add_call(2, {.arguments = "again, later"}));
  EXPECT_EQ(writer->pending_rows(), 0u);
  ASSERT_TRUE(writer->finish("{}", {}).ok());
  const auto pass = Pass::open(scratch / "pass00000.ttap");
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(pass->info().problem, "");
  EXPECT_FALSE(pass->event(0).returned);
  EXPECT_EQ(pass->event(1).arguments, "two");
  EXPECT_EQ(pass->event(1).forward, kNoEvent);
}

TEST(SegmentCalls, ThatCannotBeWrittenAreTakenBackAndCounted) {
  const ScratchDirectory scratch;
  auto writer = SegmentWriter::create(scratch / "pass00000.ttap", 0, 0, "{}", {});
  ASSERT_TRUE(writer.ok());
  writer->add_event(0, {.name = "there", .kind = "op", .stack = {}});
  const Use use[] = {{.path = "/0", .tensor = 1}};
  writer->add_event(1, {.name = "ended", .kind = "op", .stack = {}});
  ASSERT_TRUE(writer->add_call(1, {.uses = use}));
  ASSERT_FALSE(writer->flush().error);

  // The file may not grow: the end of `there`, and `gone` with its end.
  ASSERT_NE(::signal(SIGXFSZ, SIG_IGN), SIG_ERR);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit limit{writer->file_bytes(), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  writer->add_event(2, {.name = "gone", .kind = "op", .stack = {}});
  ASSERT_TRUE(writer->add_call(2, {.arguments = "gone", .uses = use}));
  ASSERT_TRUE(writer->add_call(0, {.arguments = "lost", .uses = use}));
  const auto outcome = writer->flush();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(outcome.error);
  EXPECT_EQ(outcome.events_lost, 2u) << "one without its row, one without its end";

  writer->add_event(3, {.name = "after", .kind = "op", .stack = {}});
  const Use later[] = {{.path = "/later", .tensor = 8}};
  EXPECT_TRUE(writer->add_call(3, {.arguments = "after", .forward = 2, .uses = later}));
  EXPECT_FALSE(writer->add_call(2, {}));
  ASSERT_FALSE(writer->flush().error);
  ASSERT_TRUE(writer->finish("{}", {}).ok());
  const auto pass = Pass::open(scratch / "pass00000.ttap");
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(pass->info().problem, "");
  ASSERT_EQ(pass->event_count(), 3u);
  EXPECT_FALSE(pass->event(0).returned);
  EXPECT_TRUE(pass->event(1).returned);
  EXPECT_EQ(pass->event(2).name, "after");
  EXPECT_EQ(pass->event(2).arguments, "after");
  EXPECT_EQ(pass->event(2).forward, kNoEvent) << "what it names was lost";
  EXPECT_EQ(pass->use(2, 0).path, "/later");
}

TEST(SegmentCalls, FindValuesInAnyOrderAndWithGaps) {
  const ScratchDirectory scratch;
  const std::vector<float> values = {1, 2};
  for (const std::vector<uint32_t>& numbers :
       {std::vector<uint32_t>{1, 2, 3, 4}, {7, 8, 20, 4'000'000'000}, {9, 3, 0, 5, 4}, {6, 6, 7}, {0, 0}}) {
    const auto path = scratch / "pass00000.ttap";
    std::filesystem::remove(path);
    auto writer = SegmentWriter::create(path, 0, 0, "{}", {});
    ASSERT_TRUE(writer.ok());
    writer->add_event(0, {.name = "x", .kind = "op", .stack = {}});
    std::vector<Use> uses = {{.value = 2'000'000'000}, {.value = 0}, {.value = 6}};
    for (const uint32_t number : numbers) {
      writer->add_tensor(two_floats("x", values, 0, number), 0, std::as_bytes(std::span(values)));
      uses.push_back({.value = number});
    }
    ASSERT_TRUE(writer->add_call(0, {.uses = uses}));
    ASSERT_FALSE(writer->flush().error);
    ASSERT_TRUE(writer->finish("{}", {}).ok());
    const auto pass = Pass::open(path);
    ASSERT_TRUE(pass.ok());
    EXPECT_EQ(pass->use(0, 0).record, kNoNumber);
    EXPECT_EQ(pass->use(0, 1).record, kNoNumber);
    const auto six = std::ranges::find(numbers, 6u);
    EXPECT_EQ(pass->use(0, 2).record, six == numbers.end() ? kNoNumber : six - numbers.begin());
    for (uint32_t i = 0; i < numbers.size(); ++i) {
      const uint32_t expected = numbers[i] == 0 ? kNoNumber : numbers[i] == 6 ? 0 : i;
      EXPECT_EQ(pass->use(0, 3 + i).record, expected) << numbers[i];
    }
  }
}

// ---- damage ----

// Whatever a damaged file still gives must be what was recorded.
void expect_only_true_calls(const std::filesystem::path& path, const std::string& what) {
  const auto pass = Pass::open(path);
  if (!pass.ok()) return;
  for (size_t i = 0; i < pass->event_count(); ++i) {
    const EventRecord event = pass->event(i);
    ASSERT_EQ(event.name, i == 0 ? "outer" : i == 1 ? "first" : "second") << what;
    if (!event.returned) {
      ASSERT_EQ(event.use_count, 0u) << what;
      continue;
    }
    ASSERT_EQ(event.duration_ns, i == 0 ? 99u : 11 * i) << what;
    ASSERT_EQ(event.arguments, i == 0 ? "" : i == 1 ? "%0, 1" : "self=%0") << what;
    ASSERT_EQ(event.forward, i == 2 ? 1 : kNoEvent) << what;
    ASSERT_EQ(event.use_count, i == 0 ? 0u : 2u) << what;
    if (i == 0) continue;
    const UseRecord in = pass->use(i, 0), out = pass->use(i, 1);
    ASSERT_EQ(in.path, i == 1 ? "/0" : "/self") << what;
    ASSERT_EQ(in.tensor, i + 2) << what;
    ASSERT_EQ(out.role, "out") << what;
    // A record is that of the value, or is not there.
    for (const UseRecord& use : {in, out})
      if (use.record != kNoNumber) {
        ASSERT_EQ(pass->tensor(use.record).value, use.tensor == 4 ? 5u : 7u) << what;
      }
  }
}

TEST(SegmentCallsDamage, TruncatedAnywhereTheyAreTheTruthOrNotThere) {
  const ScratchDirectory scratch;
  const auto bytes = read_file(write_calls(scratch.path()));
  const auto path = scratch / "cut.ttap";
  size_t most = 0;
  for (size_t size = 64; size < bytes.size(); ++size) {
    write_file(path, std::span(bytes).first(size));
    expect_only_true_calls(path, "cut to " + std::to_string(size));
    const auto pass = Pass::open(path);
    ASSERT_TRUE(pass.ok());
    size_t returned = 0;
    for (size_t i = 0; i < pass->event_count(); ++i) returned += pass->event(i).returned ? 1 : 0;
    EXPECT_GE(returned, most) << "a longer file gave fewer calls at " << size;
    most = returned;
  }
  EXPECT_EQ(most, 3u);
}

TEST(SegmentCallsDamage, WithAnyByteFlippedTheyAreTheTruthOrNotThere) {
  const ScratchDirectory scratch;
  auto bytes = read_file(write_calls(scratch.path()));
  const auto path = scratch / "flipped.ttap";
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const int mask : {0x01, 0xFF}) {
      bytes[at] ^= std::byte(mask);
      write_file(path, bytes);
      expect_only_true_calls(path, "byte " + std::to_string(at));
      bytes[at] ^= std::byte(mask);
    }
  }
}

TEST(SegmentCallsDamage, RecoveryKeepsThem) {
  const ScratchDirectory scratch;
  const auto whole = read_file(write_calls(scratch.path()));
  const auto torn = scratch / "pass00002.ttap.incomplete";
  write_file(torn, std::span(whole).first(whole.size() - 400));  // without its index
  const auto recovered = recover_pass(torn);
  ASSERT_TRUE(recovered.ok()) << recovered.error().describe();
  expect_only_true_calls(recovered->path, "recovered");
  const auto pass = Pass::open(recovered->path);
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(pass->info().problem, "");
  EXPECT_TRUE(pass->event(0).returned);
  EXPECT_EQ(pass->use(2, 1).record, 1u);
}

// ---- rows that somebody made, with every checksum right ----

// Changes row `row` of the last frame of `type`, mends its checksum and cuts the file behind it.
template <class Row>
std::vector<std::byte> with_row(std::vector<std::byte> bytes, format::FrameType type, size_t row,
                                const std::function<void(Row&)>& change) {
  size_t found = 0;
  format::FrameHeader header{};
  for (size_t at = 64; at + 128 < bytes.size(); at += 64 + format::align_up(header.payload_bytes)) {
    std::memcpy(&header, bytes.data() + at, sizeof header);
    if (header.type == static_cast<uint16_t>(type)) found = at;
  }
  std::memcpy(&header, bytes.data() + found, sizeof header);
  Row changed;
  std::byte* const place = bytes.data() + found + sizeof header + row * sizeof(Row);
  std::memcpy(&changed, place, sizeof changed);
  change(changed);
  std::memcpy(place, &changed, sizeof changed);
  header.payload_crc = crc32c(std::span(bytes).subspan(found + sizeof header, header.payload_bytes));
  header.header_crc = crc32c(std::as_bytes(std::span(&header, 1)).first(60));
  std::memcpy(bytes.data() + found, &header, sizeof header);
  bytes.resize(bytes.size() - 64);  // without the trailer the frames are walked, and the problem is told
  return bytes;
}

class SegmentCallsHostile : public testing::Test {
 protected:
  // What the reader says of a change to the second call frame, whose rows are those of `second` and `outer`.
  template <class Row>
  std::string problem_with(format::FrameType type, size_t row, const std::function<void(Row&)>& change) {
    const auto path = scratch_ / "hostile.ttap";
    write_file(path, with_row(whole_, type, row, change));
    const auto pass = Pass::open(path);
    EXPECT_TRUE(pass.ok());
    // Of the frame that does not hold nothing is shown.
    EXPECT_TRUE(pass->event(1).returned);
    for (size_t i = 0; i < pass->event_count(); ++i)
      if (i != 1 && !pass->info().problem.empty()) {
        EXPECT_FALSE(pass->event(i).returned) << i;
      }
    return pass->info().problem;
  }
  std::string problem_with_call(size_t row, const std::function<void(format::CallRow&)>& change) {
    return problem_with<format::CallRow>(format::FrameType::kCalls, row, change);
  }
  std::string problem_with_use(const std::function<void(format::UseRow&)>& change) {
    return problem_with<format::UseRow>(format::FrameType::kUses, 0, change);
  }

  const ScratchDirectory scratch_;
  const std::vector<std::byte> whole_ = read_file(write_calls(scratch_.path()));
};

#define EXPECT_PROBLEM(problem, text) EXPECT_NE((problem).find(text), std::string::npos) << (problem)

TEST_F(SegmentCallsHostile, UnchangedIsSound) {
  EXPECT_EQ(problem_with_call(0, [](auto&) {}), "");
  EXPECT_EQ(problem_with_use([](auto&) {}), "");
}

TEST_F(SegmentCallsHostile, CallOfAnEventThatIsNotThere) {
  for (const uint32_t event : {3u, 1'000'000u, kNoEvent})
    EXPECT_PROBLEM(problem_with_call(0, [&](auto& row) { row.event = event; }), "an event that is not there");
}

TEST_F(SegmentCallsHostile, SecondCallOfAnEvent) {
  EXPECT_PROBLEM(problem_with_call(1, [](auto& row) { row.event = 2; }), "a second call");  // of the same frame
  EXPECT_PROBLEM(problem_with_call(1, [](auto& row) { row.event = 1; }), "a second call");  // of an earlier one
}

TEST_F(SegmentCallsHostile, TextsThatAreNotThere) {
  using Field = uint32_t format::CallRow::*;
  for (const Field field : {&format::CallRow::arguments, &format::CallRow::results, &format::CallRow::notes})
    EXPECT_PROBLEM(problem_with_call(0, [&](auto& row) { row.*field = 1000; }), "a string that is not there");
}

TEST_F(SegmentCallsHostile, AForwardThatDidNotComeBefore) {
  for (const uint32_t forward : {2u, 3u, 0xFFFFFFFEu})
    EXPECT_PROBLEM(problem_with_call(0, [&](auto& row) { row.forward = forward; }), "a forward");
}

TEST_F(SegmentCallsHostile, UsesThatAreNotThere) {
  EXPECT_PROBLEM(problem_with_call(0, [](auto& row) { row.use_count = 3; }), "uses that are not there");
  EXPECT_PROBLEM(problem_with_call(0, [](auto& row) { row.use_count = 0xFFFFFFFF; }), "uses that are not there");
  EXPECT_PROBLEM(problem_with_call(0, [](auto& row) { row.first_use = 0xFFFFFFFF; }), "uses that are not there");
}

TEST_F(SegmentCallsHostile, UsesOfAnotherCall) {
  EXPECT_PROBLEM(problem_with_call(0, [](auto& row) { row.first_use = 1; }), "two calls");  // of an earlier frame
  EXPECT_PROBLEM(problem_with_call(1, [](auto& row) { row.first_use = 3, row.use_count = 1; }), "two calls");
}

TEST_F(SegmentCallsHostile, UseWithTextsThatAreNotThere) {
  EXPECT_PROBLEM(problem_with_use([](auto& row) { row.role = 1000; }), "a use refers to a string");
  EXPECT_PROBLEM(problem_with_use([](auto& row) { row.path = 1000; }), "a use refers to a string");
}

TEST_F(SegmentCallsHostile, TablesOfTheWrongSize) {
  for (const auto type : {format::FrameType::kCalls, format::FrameType::kUses}) {
    auto bytes = whole_;
    format::FrameHeader header{};
    for (size_t at = 64; at + 128 < bytes.size(); at += 64 + format::align_up(header.payload_bytes)) {
      std::memcpy(&header, bytes.data() + at, sizeof header);
      if (header.type != static_cast<uint16_t>(type)) continue;
      header.row_count += 1;
      header.header_crc = crc32c(std::as_bytes(std::span(&header, 1)).first(60));
      std::memcpy(bytes.data() + at, &header, sizeof header);
    }
    const auto path = scratch_ / "hostile.ttap";
    write_file(path, bytes);
    const auto pass = Pass::open(path);
    ASSERT_TRUE(pass.ok());
    EXPECT_PROBLEM(pass->info().problem, "table of the wrong size");
    EXPECT_FALSE(pass->event(0).returned);
  }
}

TEST_F(SegmentCallsHostile, AValueThatTwoRowsHaveHarmsNothing) {
  const auto path = scratch_ / "hostile.ttap";
  write_file(path,
             with_row<format::TensorRow>(whole_, format::FrameType::kTensors, 0, [](auto& row) { row.value = 5; }));
  const auto pass = Pass::open(path);
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(pass->info().problem, "");
  EXPECT_EQ(pass->use(1, 1).record, 0u);
  EXPECT_EQ(pass->use(2, 1).record, kNoNumber) << "nobody has its value";
}

}  // namespace
}  // namespace ttap
