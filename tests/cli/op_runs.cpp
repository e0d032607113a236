#include "op_runs.h"

#include <cmath>
#include <limits>

#include "linked_ops.h"
#include "not_finite.h"

namespace ttap::test {
namespace fs = std::filesystem;
namespace {

constexpr auto of = &LinkedOps::of;
constexpr auto outside = &LinkedOps::outside;

constexpr std::string_view kMaskStack =
    "/home/me/train.py:31 in main\tloss = step(batch)\n"
    "/home/me/model.py:12 in causal_mask\tmask = torch.full((n, n), float('-inf'))";
constexpr std::string_view kAttentionStack =
    "/home/me/train.py:31 in main\tloss = step(batch)\n"
    "/usr/lib/python3/site-packages/torch/nn/modules/module.py:1779 in _call_impl\n"
    "/home/me/model.py:40 in forward\treturn torch.softmax(scores + mask, -1)\n"
    "/usr/lib/python3/site-packages/torch/nn/functional.py:2140 in softmax";
constexpr std::string_view kLossStack =
    "/home/me/train.py:31 in main\tloss = step(batch)\n"
    "/home/me/train.py:18 in step\treturn nll(model(batch.x), batch.y)\n"
    "/usr/lib/python3/site-packages/torch/nn/modules/module.py:1779 in _call_impl\n"
    "/home/me/loss.py:7 in forward\treturn -p.log().mean()";

LinkedOps::Value masked_softmax(LinkedOps& ops, LinkedOps::Values mask, LinkedOps::Values result) {
  const auto full = ops.call({"aten::full", {}, "[3], -inf, dtype=torch.float32", kMaskStack}, {-kInf, -kInf, -kInf});
  const auto triu = ops.call({"attn:aten::triu", {of(full)}, ", 1"}, std::move(mask));
  LinkedOps::Values shown = {1, 2, 3};
  const auto scores = ops.call({"attn:aten::mm", {outside({1, 2}), outside({3, 4})}}, shown);
  const auto masked =
      ops.call({"attn:aten::add.Tensor", {of(scores), of(triu)}, ", alpha=1"},
               result[0] != result[0] ? LinkedOps::Values{-kInf, -kInf, -kInf} : LinkedOps::Values{1, -kInf, -kInf});
  return ops.call({"attn:aten::_softmax", {of(masked)}, ", -1, False", kAttentionStack}, std::move(result));
}

fs::path folder_of(const fs::path& run) { return run / rank_directory_name(0, 4711); }

// A step of data-parallel training.
void parallel_step(const fs::path& run, uint32_t rank) {
  SamplePass pass(run / rank_directory_name(rank, 4711 + rank), 0);
  LinkedOps ops(pass);
  const bool bad = rank == 1;
  const float nan = kNan;
  const auto weights = ops.call({"attn:aten::sub.Tensor", {outside({1, 2})}, ", 0.5", kAttentionStack},
                                bad ? LinkedOps::Values{-0.5F, 1.5F} : LinkedOps::Values{0.25F, 0.75F});
  const auto log = ops.call({"loss:aten::log", {of(weights)}, "", kLossStack},
                            bad ? LinkedOps::Values{nan, 0.405F} : LinkedOps::Values{-1.386F, -0.288F});
  const auto gradient = ops.call({"loss:backward:aten::div.Tensor", {outside({1, 1}), of(log)}},
                                 bad ? LinkedOps::Values{nan, 2.47F} : LinkedOps::Values{-0.72F, -3.48F});
  const std::string notes = fmt::format(R"({{"group": "0 (default_pg), rank {} of 2"}})", rank);
  const auto sum = ops.call({.name = "backward:c10d::allreduce_",
                             .in = {{.value = gradient, .written = true, .path = "/0/0"}},
                             .literals = ", <ProcessGroup>, ReduceOp.SUM, None",
                             .notes = notes},
                            {nan, -1.01F});
  ops.call({"aten::add_.Tensor", {outside({1, 1}), of(sum)}, ", alpha=-0.1"}, {nan, 1.1F});
  pass.finish();
}

}  // namespace

void spread_nan(const fs::path& run) {
  for (uint32_t rank = 0; rank < 2; ++rank) parallel_step(run, rank);
}

void lone_rank(const fs::path& run) { parallel_step(run, 0); }

void log_of_zero(const fs::path& run) {
  SamplePass pass(folder_of(run), 0);
  LinkedOps ops(pass);
  const auto weights = masked_softmax(ops, {0, -kInf, -kInf}, {1, 0, 0});
  const auto log = ops.call({"loss:aten::log", {of(weights)}, "", kLossStack}, {0, -kInf, -kInf});
  const uint32_t forward = ops.last_event;
  const auto mean = ops.call({"loss:aten::mean", {of(log)}, "", kLossStack}, {-kInf});
  ops.call({"loss:aten::neg", {of(mean)}, "", kLossStack}, {kInf});
  ops.call({.name = "loss:backward:aten::div.Tensor",
            .in = {outside({-0.5F, -0.5F, -0.5F}), of(weights)},
            .forward = forward},
           {-0.5F, -kInf, -kInf});
  pass.finish();
}

void masked_row(const fs::path& run) {
  for (uint32_t number = 0; number < 2; ++number) {
    SamplePass pass(folder_of(run), number);
    LinkedOps ops(pass);
    const auto weights = number == 0 ? masked_softmax(ops, {0, -kInf, -kInf}, {1, 0, 0})
                                     : masked_softmax(ops, {-kInf, -kInf, -kInf}, {kNan, kNan, kNan});
    const float value = number == 0 ? 1 : kNan;
    ops.call({"attn:aten::mm", {of(weights), outside({5, 6, 7})}}, {value, value});
    pass.finish();
  }
}

void root_of_zero(const fs::path& run) {
  constexpr std::string_view kForward =
      "/home/me/train.py:9 in main\tx = norm(x)\n/home/me/norm.py:4 in forward\ty = x.sqrt()";
  constexpr std::string_view kBackward = "/home/me/train.py:10 in main\ty.sum().backward()";
  SamplePass pass(folder_of(run), 0);
  LinkedOps ops(pass);
  const auto root = ops.call({"norm:aten::sqrt", {outside({0, 4})}, "", kForward}, {0, 2});
  const uint32_t forward = ops.last_event;
  const auto twice = ops.call({.name = "norm:backward:aten::mul.Tensor",
                               .in = {of(root)},
                               .literals = ", 2",
                               .stack = kBackward,
                               .forward = forward},
                              {0, 4});
  ops.call({.name = "norm:backward:aten::div.Tensor",
            .in = {outside({1, 1}), of(twice)},
            .stack = kBackward,
            .forward = forward},
           {kInf, 0.25F});
  pass.finish();
}

void many_heirs(const fs::path& run) {
  SamplePass pass(folder_of(run), 0);
  LinkedOps ops(pass);
  auto value = ops.call({"layers.0:aten::mm", {LinkedOps::unrecorded(), outside({1, kNan})}}, {kNan, 1});
  for (int i = 0; i < 29; ++i)
    value = ops.call({"layers.0:aten::relu", {of(value)}}, {kNan, 1.0F + static_cast<float>(i)});
  pass.finish();
}

void only_masks(const fs::path& run) {
  SamplePass pass(folder_of(run), 0);
  LinkedOps ops(pass);
  masked_softmax(ops, {0, -kInf, -kInf}, {1, 0, 0});
  pass.tensor("half", DType::kF16, {1}, {std::byte{0x00}, std::byte{0x79}});
  pass.tensor("tiny", {2}, std::vector<float>{1e-40F, 1});
  pass.finish();
}

}  // namespace ttap::test
