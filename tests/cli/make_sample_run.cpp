// make_sample_run KIND DIRECTORY [N]: writes a run for the tests of the command. KIND is one of those in main().
#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "not_finite.h"
#include "op_runs.h"
#include "quant_runs.h"
#include "sample_ops.h"
#include "sample_run.h"

namespace ttap::test {
namespace fs = std::filesystem;
namespace {

// -1, -0.9…, the same every time.
std::vector<float> ramp(size_t count, float from = -1, float to = 1) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = from + (to - from) * static_cast<float>(i) / static_cast<float>(std::max<size_t>(count - 1, 1));
  return values;
}

std::vector<std::byte> bf16_of(const std::vector<float>& values) {
  std::vector<std::byte> bytes;
  for (float value : values) {
    const auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
    bytes.push_back(static_cast<std::byte>(bits & 0xFF));
    bytes.push_back(static_cast<std::byte>(bits >> 8));
  }
  return bytes;
}

// A small model: embedding, two blocks, head. With `broken`, the second block's mlp makes NaN and Inf.
fs::path model_pass(const fs::path& rank, uint32_t number, bool broken) {
  SamplePass pass(rank, number, R"({"program": "train.py"})");
  const uint32_t model = pass.event("model");
  const uint32_t embed = pass.event("model.embed", model);
  pass.tensor("model.embed", {2, 4}, std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, int64_t{1} << 60},
              {.role = "in", .path = "/0", .event = embed});
  pass.tensor("model.embed", {2, 4, 8}, ramp(64), {.event = embed});
  for (int layer = 0; layer < 2; ++layer) {
    const std::string block_name = fmt::format("model.layers.{}", layer);
    const std::string mlp_name = block_name + ".mlp";
    const uint32_t block = pass.event(block_name, model);
    const uint32_t mlp = pass.event(mlp_name, block, 1, "module", "train.py:10 in main\nmodel.py:42 in forward");
    pass.tensor(mlp_name, {2, 4, 8}, ramp(64, -1, 2), {.role = "in", .path = "/0", .event = mlp});
    std::vector<float> out = ramp(64, -3, 3);
    if (broken && layer == 1) {
      out[13] = kNan;
      out[14] = kInf;
      out[63] = -kInf;
    }
    pass.tensor(mlp_name, {2, 4, 8}, out, {.event = mlp, .strides = {1, 2, 8}, .device = "cuda:0"});
    pass.tensor(block_name + ".norm", DType::kBF16, {2, 4, 8}, bf16_of(broken && layer == 1 ? out : ramp(64)),
                {.level = Level::kFingerprint});
  }
  pass.tensor("model.head", {2, 16}, broken ? std::vector<float>(32, kNan) : ramp(32, 0, 0.5), {});
  pass.tensor("model.head", {2, 16}, ramp(32, 0, 0.5), {.call = 2});
  pass.tensor("model.cache", {1024}, ramp(1024), {.level = Level::kMeta});
  return pass.finish();
}

void model(const fs::path& run, bool broken) { model_pass(run / rank_directory_name(0, 4711), 0, broken); }

void several(const fs::path& run) {
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const fs::path folder = run / rank_directory_name(rank, 4711 + rank);
    for (uint32_t number = 0; number < 3; ++number) model_pass(folder, number, rank == 1 && number == 1);
  }
}

void trouble(const fs::path& run) {
  const fs::path folder = run / rank_directory_name(0, 4711);
  {
    SamplePass aborted(folder, 0);
    aborted.tensor("a", {4}, ramp(4), {});
    aborted.tensor("b", {4}, ramp(4), {.keep_bytes = false});
    aborted.finish({.ending = Ending::kAborted, .drops = {.quota = 1, .unsupported = 2}});
  }
  SamplePass torn(folder, 1);
  torn.tensor("a", {4}, ramp(4), {});
  torn.abandon(37);
}

void damaged(const fs::path& run) {
  SamplePass pass(run / rank_directory_name(0, 4711), 0);
  pass.tensor("good", {4}, ramp(4), {});
  pass.tensor("bad", {4}, std::vector<float>{8.5F, 8.5F, 8.5F, 8.25F}, {});
  const fs::path path = pass.finish();
  std::string bytes(fs::file_size(path), '\0');
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const float last = 8.25F;
  const size_t place = bytes.find(std::string(reinterpret_cast<const char*>(&last), sizeof last));
  TTAP_CHECK(place != std::string::npos);
  file.seekp(static_cast<std::streamoff>(place)).put('\x7F');
}

void odd_names(const fs::path& run) {
  // Metadata that would overflow the stack of a careless reader.
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  SamplePass pass(run / rank_directory_name(0, 4711), 0, deep);
  for (const std::string& name : {std::string("line\nbreak"), std::string("\x1b[31mred"), std::string("bytes\xFF\xFE"),
                                  std::string("at@home/100%"), std::string("größe.模型"), std::string("spaced 'name'")})
    pass.tensor(name, {3}, ramp(3), {});
  pass.tensor("nested", {3}, ramp(3), {.path = "/tab\there"});
  pass.finish();
}

void values(const fs::path& run) {
  SamplePass pass(run / rank_directory_name(0, 4711), 0);
  pass.tensor("constant", {5}, std::vector<float>(5, 2.5F), {});
  pass.tensor("all_nan", {2, 2}, std::vector<float>(4, kNan), {});
  pass.tensor("empty", {3, 0}, std::vector<float>{}, {});
  pass.tensor("scalar", {}, std::vector<float>{42}, {});
  pass.tensor("big_integers", {3},
              std::vector<int64_t>{std::numeric_limits<int64_t>::min(), 0, std::numeric_limits<int64_t>::max()}, {});
  pass.tensor("bool", DType::kBool, {4}, {std::byte{1}, std::byte{0}, std::byte{1}, std::byte{1}});
  const std::vector<float> complex = {1, -2, 0.5F, kNan};
  const auto bytes = std::as_bytes(std::span(complex));
  pass.tensor("complex", DType::kC64, {2}, {bytes.begin(), bytes.end()});
  pass.tensor("fp4", DType::kF4E2M1FNx2, {2}, {std::byte{0x71}, std::byte{0x0F}});
  pass.tensor("matrix", {100, 50}, ramp(5000), {});
  pass.finish();
}

void large(const fs::path& run, size_t count) {
  SamplePass pass(run / rank_directory_name(0, 4711), 0);
  for (size_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("model.layers.{}.block.{}.projection", i / 100, i % 100);
    const uint32_t event = pass.event(name);
    pass.tensor(name, {4}, std::vector<float>{1, 2, 3, i == count - 1 ? kNan : static_cast<float>(i)},
                {.event = event});
    if (i % 1000 == 999) pass.flush();
  }
  pass.finish();
}

// A training loop of ops: each takes what the one before it made, every eighth begins a module.
void many_ops(const fs::path& run, size_t count) {
  SampleOps pass(run / rank_directory_name(0, 4711));
  uint32_t module = kNoEvent;
  uint32_t before = 0;
  for (size_t i = 0; i < count; ++i) {
    const std::string scope = fmt::format("model.layers.{}", i / 8 % 1000);
    if (i % 8 == 0) {
      if (module != kNoEvent) pass.end_module(module, R"({"class": "Linear"})");
      module = pass.call({.name = scope, .kind = "module", .call = static_cast<uint32_t>(1 + i / 8000)});
    }
    const std::string name = scope + ":aten::add.Tensor";
    const auto tensor = static_cast<uint32_t>(i);
    pass.call({.name = name,
               .parent = module,
               .stack = "train.py:20 in step\tloss = model(x)",
               .arguments = "%0, %1, alpha=2",
               .results = "%2",
               .tensors = {{.path = "/0", .number = tensor, .same_as = before, .shape = {8}},
                           {.path = "/1", .number = tensor, .same_as = before, .shape = {8}},
                           {.role = "out", .number = tensor + 1, .shape = {8}}},
               .call = static_cast<uint32_t>(1 + i / 8000 * 8 + i % 8)});
    before = pass.last_values[2];
    if (i % 1000 == 999) pass.flush();
  }
  pass.finish();
}

constexpr std::string_view kCoverage = R"({
  "passes": 3,
  "tensors": 33,
  "tensor_bytes": 18624,
  "deduplicated": 4,
  "file_bytes": 14403,
  "names": {"seen": 13, "recorded": 10},
  "patterns": [{"pattern": "^model\\.", "names": 10}, {"pattern": "lm_head", "names": 0}],
  "drops": {"staging_full": 0, "quota": 2, "disk_full": 0, "io_error": 0, "unsupported": 1, "events": 0},
  "first_error": "",
  "staging_peak_bytes": 8192,
  "source": {
    "roots": [{"name": "Model", "modules": 9, "selected": 7, "passes": 3}],
    "never_called": [
      {"name": "model.pooler", "type": "Pooler", "why": "never called"},
      {"name": "model.pooler.dense", "type": "Linear", "why": "never called"},
      {"name": "model.rotary", "type": "Rotary", "why": "called through .forward() at model.py:31"}
    ],
    "without_tensors": [{"name": "model.sampler", "calls": 3}],
    "unsupported": [{"why": "a sparse tensor", "count": 1, "first": "model.embed@grad_out"}],
    "outside_steps": 12
  }
})";

// Rank 0 closed its recorder, rank 1 did not live to.
void covered(const fs::path& run) {
  several(run);
  for (uint32_t rank = 0; rank < 2; ++rank)
    std::ofstream(run / rank_directory_name(rank, 4711 + rank) / "rank.json") << "{}";
  std::ofstream(run / rank_directory_name(0, 4711) / "coverage.json") << kCoverage;
}

// Says so, and goes on writing until its input ends.
void being_written(const fs::path& run) {
  SamplePass pass(run / rank_directory_name(0, ::getpid()), 0);
  pass.tensor("a", {4}, ramp(4), {});
  pass.flush();
  fmt::print("ready\n");
  std::fflush(stdout);
  char byte;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

}  // namespace
}  // namespace ttap::test

int main(int argc, char** argv) {
  using namespace ttap::test;
  if (argc < 3) return 2;
  const std::string kind = argv[1];
  const fs::path run = argv[2];
  if (kind == "clean")
    model(run, false);
  else if (kind == "broken")
    model(run, true);
  else if (kind == "several")
    several(run);
  else if (kind == "covered")
    covered(run);
  else if (kind == "trouble")
    trouble(run);
  else if (kind == "damaged")
    damaged(run);
  else if (kind == "odd_names")
    odd_names(run);
  else if (kind == "values")
    values(run);
  else if (kind == "large")
    large(run, std::stoul(argv[3]));
  else if (kind == "log_of_zero")
    log_of_zero(run);
  else if (kind == "masked_row")
    masked_row(run);
  else if (kind == "root_of_zero")
    root_of_zero(run);
  else if (kind == "many_heirs")
    many_heirs(run);
  else if (kind == "only_masks")
    only_masks(run);
  else if (kind == "spread_nan")
    spread_nan(run);
  else if (kind == "lone_rank")
    lone_rank(run);
  else if (kind == "ops")
    write_sample_ops(run / ttap::rank_directory_name(0, 4711));
  else if (kind == "many_ops")
    many_ops(run, std::stoul(argv[3]));
  else if (kind == "weights")
    weights(run);
  else if (kind == "quantized")
    quantized_weights(run);
  else if (kind == "dumped")
    dumped(run);
  else if (kind == "being_written")
    being_written(run);
  else
    return 2;
  return 0;
}
