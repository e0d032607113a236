#include "quant_runs.h"

#include <cmath>
#include <vector>

#include "core/mix64.h"
#include "sample_groups.h"

namespace ttap::test {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kRows = 32;
constexpr int64_t kColumns = 64;

// From -1 to 1, the same every time; none is 0.
float even(size_t i) {
  return static_cast<float>((static_cast<double>(mix64((i + 1) * 0x9E3779B97F4A7C15u) >> 11) + 0.5) * 0x1p-52 - 1);
}

template <class Value>
std::vector<float> matrix(Value&& value) {
  std::vector<float> values(static_cast<size_t>(kRows * kColumns));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = value(i, i / static_cast<size_t>(kColumns), i % static_cast<size_t>(kColumns));
  return values;
}

std::vector<float> calm() {
  return matrix([](size_t i, size_t, size_t) { return even(i); });
}
std::vector<float> spiky() {
  return matrix([](size_t i, size_t, size_t column) { return column % 16 == 3 ? 768.0F : even(i); });
}
std::vector<float> wide() {
  return matrix([](size_t i, size_t row, size_t) { return std::ldexp(even(i), -static_cast<int>(row)); });
}

}  // namespace

void weights(const fs::path& run) {
  SamplePass pass(run / rank_directory_name(0, 4711), 0);
  const SamplePass::Options weight{.role = "param", .path = "/weight"};
  pass.tensor("model.calm", {kRows, kColumns}, calm(), weight);
  pass.tensor("model.spiky", {kRows, kColumns}, spiky(), weight);
  pass.tensor("model.wide", {kRows, kColumns}, wide(), weight);
  pass.tensor("model.tokens", {4}, std::vector<int64_t>{1, 2, 3, 4});
  pass.tensor("model.kept", {4}, std::vector<float>{1, 2, 3, 4}, {.level = Level::kFingerprint});
  pass.finish();
}

void quantized_weights(const fs::path& run) {
  SamplePass pass(run / rank_directory_name(0, 4711), 0);
  QuantFormat nvfp4 = quant_format("nvfp4").value();
  nvfp4.source = "torchao";
  const QuantFormat mxfp8 = quant_format("mxfp8").value();
  add_group(pass, "model.calm", {kRows, kColumns}, calm(), nvfp4, "param", "/weight");
  add_group(pass, "model.spiky", {kRows, kColumns}, spiky(), nvfp4, "param", "/weight");
  add_group(pass, "model.wide", {kRows, kColumns}, wide(), mxfp8, "param", "/weight");
  add_group(pass, "model.other", {kRows, kColumns}, calm(), nvfp4, "param", "/weight");
  pass.tensor("model.tokens", {4}, std::vector<int64_t>{1, 2, 3, 4});
  pass.finish();
}

void dumped(const fs::path& run) {
  SamplePass pass(run / rank_directory_name(0, 4711), 0);
  pass.tensor("model.fc", {kRows, kColumns}, calm(), {.role = "activation"});
  add_group(pass, "model.fc", {kRows, kColumns}, calm(), quant_format("mxfp8").value(), "activation", "/quantized");
  pass.finish();
}

}  // namespace ttap::test
