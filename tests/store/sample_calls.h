#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "store/segment/segment_writer.h"
#include "ttap/fingerprint.h"
#include "ttap/run.h"

// A segment with calls, as tests write it by hand.
namespace ttap::test {

inline const std::vector<int64_t> kTwo = {2};

// A row of two floats.
inline TensorRecord two_floats(std::string_view name, std::span<const float> values, uint32_t event, uint32_t value) {
  TensorRecord record;
  record.name = name;
  record.event = event;
  record.shape = kTwo;
  record.byte_count = values.size_bytes();
  record.has_fingerprint = record.has_bytes = true;
  record.fingerprint = fingerprint({values.data(), DType::kF32, kTwo, {}});
  record.value = value;
  return record;
}

// Two flushes: `outer` around `first`, then `second`, the backward of `first`; `outer` ends last.
inline std::filesystem::path write_calls(const std::filesystem::path& directory) {
  const std::vector<float> a = {1, 2}, b = {3, 4};
  const auto path = directory / "pass00001.ttap";
  auto writer = SegmentWriter::create(path, 1, 0, "{}", {});
  EXPECT_TRUE(writer.ok());
  writer->add_event(0, {.name = "outer", .kind = "module", .stack = {}});
  writer->add_event(1, {.name = "first", .kind = "op", .parent = 0, .stack = {}});
  writer->add_tensor(two_floats("first", a, 1, 5), 0, std::as_bytes(std::span(a)));
  const Use of_first[] = {{.path = "/0", .tensor = 3}, {.role = "out", .tensor = 4, .value = 5}};
  EXPECT_TRUE(writer->add_call(1, {.arguments = "%0, 1", .results = "%1", .duration_ns = 11, .uses = of_first}));
  EXPECT_FALSE(writer->flush().error);
  writer->add_event(2, {.name = "second", .kind = "op", .parent = 0, .stack = {}});
  writer->add_tensor(two_floats("second", b, 2, 7), 0, std::as_bytes(std::span(b)));
  const Use of_second[] = {{.path = "/self", .tensor = 4, .value = 5, .written = true},
                           {.role = "out", .tensor = 6, .value = 7}};
  EXPECT_TRUE(writer->add_call(2, {.arguments = "self=%0",
                                   .results = "%1",
                                   .notes = R"({"hook": 1})",
                                   .forward = 1,
                                   .duration_ns = 22,
                                   .uses = of_second}));
  EXPECT_TRUE(writer->add_call(0, {.duration_ns = 99}));
  EXPECT_FALSE(writer->flush().error);
  EXPECT_TRUE(writer->finish(to_json(EndRecord{}), {}).ok());
  return path;
}

}  // namespace ttap::test
