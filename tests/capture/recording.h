#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "ttap/recorder.h"
#include "ttap/run.h"

// Small recordings for the tests of the recorder.
namespace ttap {

inline const std::vector<int64_t> kEight = {8};

inline std::vector<float> eight(float start) {
  std::vector<float> values(8);
  std::iota(values.begin(), values.end(), start);
  return values;
}

inline TensorView view_of(const std::vector<float>& values) { return {values.data(), DType::kF32, kEight, {}}; }

inline std::unique_ptr<Recorder> make(RecorderOptions options) {
  options.rank = 0;
  auto recorder = Recorder::create(options);
  EXPECT_TRUE(recorder.ok()) << recorder.error().describe();
  return std::move(recorder).value();
}

inline Pass open_pass(const Recorder& recorder, int number) {
  char name[32];
  std::snprintf(name, sizeof name, "pass%05d.ttap", number);
  auto pass = Pass::open(recorder.rank_directory() / name);
  EXPECT_TRUE(pass.ok()) << pass.error().describe();
  return std::move(pass).value();
}

inline std::vector<float> values_of(const Pass& pass, const Key& key) {
  const auto index = pass.find(key);
  if (!index) return {};
  const auto view = pass.read(*index);
  if (!view.ok()) return {};
  std::vector<float> values(element_count(*view));
  std::memcpy(values.data(), view->data, values.size() * sizeof(float));
  return values;
}

}  // namespace ttap
