#include "analyze/diff/blame/own_errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "analyze/ops/event_op.h"
#include "analyze/ops/op_facts.h"
#include "analyze/ops/role_flow.h"

namespace ttap {
namespace {

// A difference in fewer of the values may be a sum in another order, which moves one in hundreds over the edge between
// two steps.
constexpr double kManyValues = 0.02;
constexpr double kFewerElsewhere = 50;  // times

bool has_modules_inside(const Side& side, uint32_t event) {
  // Events inside follow; the next module that is not inside ends them.
  for (uint32_t k = event + 1; k < side.event_count(); ++k)
    if (side.event(k).kind == "module") return side.event(k).parent == event;
  return false;
}

// Modules of PyTorch's that are one operator.
bool is_one_operator(const ModuleFacts& module) {
  constexpr std::string_view kOwn = "torch.nn.modules.";
  constexpr std::array<std::string_view, 5> kSeveral{"MultiheadAttention", "Transformer", "RNN", "LSTM", "GRU"};
  return module.type.starts_with(kOwn) && std::ranges::none_of(kSeveral, [&](std::string_view word) {
           return module.class_name().find(word) != std::string_view::npos;
         });
}

bool is_several_steps(std::string_view op) {
  const std::string_view name = plain_op(op);
  return name.find("attention") != std::string_view::npos || name.find("lstm") != std::string_view::npos ||
         name.find("gru") != std::string_view::npos || name.find("rnn") != std::string_view::npos;
}

}  // namespace

OwnErrors::OwnErrors(CallNodes& calls, std::span<const SettingDiff> settings, bool is_first_pass,
                     std::span<TensorDiff> tensors)
    : calls_(calls), tensors_(tensors), nothing_unequal_(is_first_pass) {
  for (const SettingDiff& setting : settings)
    if (setting.is_number()) settings_.try_emplace(setting.call_a, &setting);
}

// What the calls of a kind made of the same bits, over all: one that differs stands out among them.
void OwnErrors::count_kinds() {
  if (!kinds_.empty()) return;
  for (uint32_t i = 0; i < tensors_.size(); ++i) {
    if (calls_.came_in(i) || !is_of_question(i)) continue;
    Kind& kind = kinds_[kind_of(i)];
    const TensorDiff& tensor = tensors_[i];
    ++kind.calls;
    if (tensor.measures != nullptr) {
      kind.values += tensor.measures->count;
      kind.unequal += tensor.measures->unequal;
    } else {
      kind.values += calls_.record_at(i).fingerprint.stats.count;
    }
  }
}

// Whether it is the result of a call that was given the same bits, and it is known how far it differs.
bool OwnErrors::is_of_question(uint32_t i) {
  const TensorDiff& tensor = tensors_[i];
  if (tensor.match.a == kNoTensor || tensor.match.b == kNoTensor) return false;
  const bool measured = is_measured(tensor);
  if (tensor.verdict != Verdict::kIdentical && !measured) return false;
  const TensorRecord a = calls_.a().tensor(tensor.match.a), b = calls_.b().tensor(tensor.match.b);
  if (dtype_of(a) != dtype_of(b) || !a.group.empty() || !b.group.empty()) return false;
  // What a call inside it made or was given is to be judged there.
  if (!calls_.came_in(i) && calls_.of(i).unequal < i) return false;
  const uint32_t turn = flow_of(a.role).turn;
  // A backward also goes by what the forward left behind.
  for (uint32_t t = 0; t < turn; ++t)
    if (const Node* before = calls_.turn_of(i, t); before != nullptr)
      for (const auto* each : {&before->inputs, &before->outputs})
        if (std::ranges::any_of(*each, [&](uint32_t k) { return tensors_[k].verdict != Verdict::kIdentical; }))
          return false;
  return is_from_outside(i) ? nothing_unequal_ : calls_.is_made_of_same_bits(i);
}

// Why what came in does not explain a result; empty where it does, or where not all that came in is known.
std::string OwnErrors::beyond_inputs(uint32_t i) {
  const TensorDiff& tensor = tensors_[i];
  if (calls_.came_in(i) || calls_.is_of_op(i) || !is_measured(tensor)) return {};
  const Node& node = calls_.of(i);
  if (node.unequal < i || node.other || node.unknown > 0 || node.within > 0 || node.inputs.empty()) return {};
  if (flow_of(calls_.record_at(i).role).turn != 0) return {};
  std::vector<const TensorDiff*> inputs;
  bool any = false;
  for (const uint32_t k : node.inputs) {
    if (k == i) continue;
    const TensorDiff& input = tensors_[k];
    if (input.match.a == kNoTensor || input.match.b == kNoTensor || differs(input)) return {};
    if (input.verdict == Verdict::kFlipped) return {};
    any |= input.verdict == Verdict::kWithin && is_measured(input);
    inputs.push_back(&input);
  }
  return any ? beyond_what_came_in(calls_.a(), calls_.b(), tensor, size_of(i), inputs) : std::string();
}

bool OwnErrors::is_from_outside(uint32_t i) const { return calls_.came_in(i) && calls_.is_of_op(i); }

CallSize OwnErrors::size_of(uint32_t i) const {
  if (calls_.came_in(i)) return is_from_outside(i) ? CallSize::kOneRounding : CallSize::kCode;
  const Match& match = tensors_[i].match;
  CallSize size = CallSize::kOneRounding;
  for (const auto& [side, index] : {std::pair(&calls_.a(), match.a), std::pair(&calls_.b(), match.b)}) {
    const uint32_t event = side->tensor(index).event;
    if (event >= side->event_count()) return CallSize::kCode;
    const EventRecord record = side->event(event);
    if (is_call_of_operator(record)) {
      const bool several = record.kind == "kernel" || is_several_steps(operator_of(record));
      size = std::max(size, several || match.by == MatchedBy::kPlace ? CallSize::kCode : CallSize::kOneRounding);
      continue;
    }
    if (has_modules_inside(*side, event)) return CallSize::kCode;
    const ModuleFacts* module = side->module(record.name);
    size = std::max(size,
                    module != nullptr && is_one_operator(*module) ? CallSize::kOneRounding : CallSize::kFewRoundings);
  }
  return size;
}

// Calls of the same operator, or of modules of the same name below their layer, that make tensors of one shape.
std::string OwnErrors::kind_of(uint32_t i) const {
  const TensorRecord record = calls_.record_at(i);
  const Side& side = calls_.side_of(i);
  std::string_view name = record.name.substr(record.name.rfind('.') + 1);
  std::string op;
  if (record.event < side.event_count() && is_call_of_operator(side.event(record.event))) {
    op = operator_of(side.event(record.event));
    name = op;
  } else if (std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; })) {
    name = "#";
  }
  return fmt::format("{} {} {} [{}]", name, record.role, record.path, fmt::join(record.shape, ","));
}

// Of the call that made it; of the argument of a module, of the call whose code did.
const SettingDiff* OwnErrors::setting_of(uint32_t i) const {
  const TensorRecord record = calls_.record_at(i);
  const Side& side = calls_.side_of(i);
  if (settings_.empty() || record.event >= side.event_count()) return nullptr;
  EventRecord event = side.event(record.event);
  if (calls_.came_in(i)) {
    if (event.parent >= side.event_count()) return nullptr;
    event = side.event(event.parent);
  }
  const bool numbered = is_call_of_operator(event) && event.call != 1;
  const auto found =
      settings_.find(numbered ? fmt::format("{}::call{}", event.name, event.call) : std::string(event.name));
  return found == settings_.end() ? nullptr : found->second;
}

void OwnErrors::judge(uint32_t i) {
  TensorDiff& tensor = tensors_[i];
  if (tensor.verdict != Verdict::kIdentical && tensor.match.a != kNoTensor && tensor.match.b != kNoTensor)
    nothing_unequal_ = nothing_unequal_ && is_from_outside(i);
  if (tensor.verdict != Verdict::kWithin || tensor.judge == nullptr || tensor.judge->predicate) return;
  // What the user asked for is what counts; beside a mask, and beside what was summed, other scales do.
  if (!std::isfinite(tensor.judge->most_relative) || tensor.judge->scale == tensor.judge->scale) return;
  if (!is_of_question(i)) {
    if (std::string reason = beyond_inputs(i); !reason.empty()) {
      tensor.verdict = Verdict::kDiverged;
      tensor.reason = std::move(reason);
    }
    return;
  }
  if (std::string reason = beyond_rounding(calls_.a(), calls_.b(), tensor, size_of(i)); !reason.empty()) {
    tensor.verdict = Verdict::kDiverged;
    tensor.reason = std::move(reason);
    return;
  }
  if (is_from_outside(i)) return;
  if (const SettingDiff* setting = setting_of(i)) {
    tensor.verdict = Verdict::kInconclusive;
    tensor.reason = fmt::format("its {}, which moves it no further than rounding could", setting->text());
    return;
  }
  // Another operator, or a compiler's kernel, rounds in its own way.
  if (calls_.came_in(i) || tensor.match.by == MatchedBy::kPlace) return;
  count_kinds();
  const Kind& kind = kinds_[kind_of(i)];
  const Measures& m = *tensor.measures;
  const double here = static_cast<double>(m.unequal) / static_cast<double>(std::max<uint64_t>(m.count, 1));
  const auto others = static_cast<double>(kind.values - m.count),
             unequal = static_cast<double>(kind.unequal - m.unequal);
  if (kind.calls < 2 || kind.values < m.count || here < kManyValues || unequal * kFewerElsewhere > here * others)
    return;
  tensor.verdict = Verdict::kInconclusive;
  tensor.reason = fmt::format(
      "{:.2g} % of its values differ, no more than rounding could make; but of {} other calls of the kind, given the "
      "same bits on both sides, {:.2g} % do",
      100 * here, kind.calls - 1, others > 0 ? 100 * unequal / others : 0);
}

}  // namespace ttap
