#include "analyze/diff/blame/own_errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

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

// Attention, of an engine's or as a function that a module calls: it is named below the module, and is none itself.
bool is_attention(const Side& side, std::string_view name) {
  if (const ModuleFacts* module = side.module(name)) return module->class_name().ends_with("Attention");
  const size_t dot = name.rfind('.');
  return dot != std::string_view::npos && side.module(name.substr(0, dot)) != nullptr;
}

}  // namespace

OwnErrors::OwnErrors(CallNodes& calls, const Rounding& rounding, std::span<const SettingDiff> settings,
                     const BlameOptions& options, std::span<TensorDiff> tensors)
    : calls_(calls),
      rounding_(rounding),
      tensors_(tensors),
      fp32_a_(calls.a()),
      fp32_b_(calls.b()),
      strict_(options.strict),
      is_first_pass_(options.is_first_pass),
      nothing_unequal_(options.is_first_pass) {
  for (const SettingDiff& setting : settings)
    if (setting.changes_result()) settings_.try_emplace(setting.call_a, &setting);
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
  return is_from_outside(i) ? nothing_unequal_ : calls_.is_made_of_same_bits(i) && !reads_cache(i);
}

// Attention of a later pass reads what earlier ones have put into the cache, which is not among its arguments.
bool OwnErrors::reads_cache(uint32_t i) const {
  const TensorRecord record = calls_.record_at(i);
  const Side& side = calls_.side_of(i);
  return !is_first_pass_ && record.event < side.event_count() && !is_call_of_operator(side.event(record.event)) &&
         is_attention(side, record.name) && !has_modules_inside(side, record.event);
}

// Nothing where not all of it is known.
std::optional<std::vector<const TensorDiff*>> OwnErrors::made_of(uint32_t i) {
  if (flow_of(calls_.record_at(i).role).turn != 0) return std::nullopt;
  std::vector<const TensorDiff*> found;
  if (is_from_outside(i)) return found;
  if (!calls_.came_in(i))
    if (const Node& node = calls_.of(i);
        (node.other && node.other->only == kNoTensor) || node.unknown > 0 || node.within > 0)
      return std::nullopt;
  for (const uint32_t k : calls_.made_of(i)) {
    const TensorDiff& each = tensors_[k];
    if (each.match.a == kNoTensor || each.match.b == kNoTensor) return std::nullopt;
    if (each.verdict != Verdict::kIdentical && !is_measured(each)) return std::nullopt;
    found.push_back(&each);
  }
  return found.empty() ? std::nullopt : std::optional(std::move(found));
}

// Beside a sum whose terms cancel, the errors of the terms are as many times larger.
std::optional<double> OwnErrors::growth_of(uint32_t i, std::span<const TensorDiff* const> made_of) const {
  // Code between modules, and a function that is recorded as a call: attention.
  const bool by_code =
      (calls_.came_in(i) && !is_from_outside(i)) || (!calls_.is_of_op(i) && size_of(i) == CallSize::kCode);
  const auto growth = ttap::growth_of(calls_.a(), calls_.b(), tensors_[i], made_of, by_code);
  if (!growth) return std::nullopt;
  // Partial sums are rounded, too.
  const double explained = std::hypot(1 / *growth, rounding_.own_floor_of(i) / tensors_[i].measures->rmse);
  return 1 / explained / rounding_.cancellation_of(i);
}

// Of the other calls of the kind. What differs there, or was given what differs, counts too: errors of any size grow
// alike.
UsualGrowth OwnErrors::usual_growth(uint32_t but_for) {
  if (growths_.empty())
    for (uint32_t i = 0; i < tensors_.size(); ++i) {
      const Match& match = tensors_[i].match;
      if (match.a == kNoTensor || match.b == kNoTensor || !is_measured(tensors_[i])) continue;
      const auto of = made_of(i);
      if (const auto growth = of ? growth_of(i, *of) : std::nullopt) growths_[place_of(i)].emplace_back(i, *growth);
    }
  UsualGrowth usual;
  for (const auto& [i, growth] : growths_[place_of(but_for)]) {
    if (i == but_for) continue;
    ++usual.calls;
    usual.most = std::max(usual.most, growth);
  }
  return usual;
}

// Whether what it was made of explains a value; nothing is said where not all of that is known.
Unexplained OwnErrors::beyond_inputs(uint32_t i) {
  // Of a value that one side has in two, not all is known that those were made of.
  if (!is_measured(tensors_[i]) || moves_values(i) || tensors_[i].match.combines()) return {};
  const auto inputs = made_of(i);
  if (!inputs) return {};
  const Side &a = calls_.a(), &b = calls_.b();
  bool any = false;
  for (const TensorDiff* input : *inputs) {
    if (differs(*input) || input->verdict == Verdict::kFlipped) return {};
    any |= input->verdict == Verdict::kWithin;
  }
  if (calls_.is_of_op(i)) {
    if (strict_) return {};
    // Where only one side has 16 bits, a value is rounded also if all that it was made of agrees.
    const bool rounds = dtype_of(a.tensor(tensors_[i].match.a)) != dtype_of(b.tensor(tensors_[i].match.b));
    const auto growth = any || rounds ? growth_of(i, *inputs) : std::nullopt;
    // What a compiler's kernel computed between may have cancelled.
    if (!growth || (calls_.of(i).through && tensors_[i].match.by == MatchedBy::kPlace)) return {};
    const UsualGrowth usual = usual_growth(i);
    return usual.calls == 0 ? Unexplained{} : beyond_usual_growth(*growth, usual);
  }
  if (!any) return {};
  // In f32 and f64, whose sums round too, what calls inside it were off by is not told from what its own code was.
  if (!is_rounded_once(i) && (calls_.came_in(i) || calls_.of(i).unequal < i)) return {};
  Unexplained found = beyond_what_came_in(a, b, tensors_[i], size_of(i), rounded_to(i), *inputs);
  if (!found.reason.empty() || strict_) return found;
  const auto growth = growth_of(i, *inputs);
  return growth ? beyond_usual_growth(*growth, usual_growth(i)) : Unexplained{};
}

// The coarsest dtype that its call rounds to: its own on either side, that of the products it sums, and that of what
// one side computes between and the other does not show.
DType OwnErrors::rounded_to(uint32_t i) {
  const Match& match = tensors_[i].match;
  DType dtype = coarser(dtype_of(calls_.a().tensor(match.a)), dtype_of(calls_.b().tensor(match.b)));
  if (calls_.came_in(i)) return dtype;
  if (const auto through = calls_.of(i).through) dtype = coarser(dtype, *through);
  for (const auto& factors : {fp32_a_.of(match.a), fp32_b_.of(match.b)})
    if (factors) dtype = coarser(dtype, *factors);
  return dtype;
}

// Of 16 bits, on either side.
bool OwnErrors::is_rounded_once(uint32_t i) const {
  const Match& match = tensors_[i].match;
  return !sums_are_made_in(coarser(dtype_of(calls_.a().tensor(match.a)), dtype_of(calls_.b().tensor(match.b))));
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
      const bool several = record.kind == "kernel" || takes_several_steps(operator_of(record));
      size = std::max(size, several || match.by == MatchedBy::kPlace ? CallSize::kCode : CallSize::kOneRounding);
      continue;
    }
    if (has_modules_inside(*side, event)) return CallSize::kModule;
    if (is_attention(*side, record.name)) return CallSize::kCode;
    const ModuleFacts* module = side->module(record.name);
    size = std::max(size,
                    module != nullptr && is_one_operator(*module) ? CallSize::kOneRounding : CallSize::kFewRoundings);
  }
  return size;
}

namespace {

// Of "model.layers.0.mlp": "mlp"; of "model.layers.0": "#".
std::string_view last_name(std::string_view name) {
  name = name.substr(name.rfind('.') + 1);
  return std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; }) ? "#" : name;
}

}  // namespace

// The same place in other layers: of a module its name below its layer; of an operator that of the module it runs in,
// and which of its calls there it is.
std::string OwnErrors::place_of(uint32_t i) const {
  const TensorRecord record = calls_.record_at(i);
  const Side& side = calls_.side_of(i);
  std::string name(last_name(record.name));
  if (record.event < side.event_count() && is_call_of_operator(side.event(record.event))) {
    const EventRecord event = side.event(record.event);
    const std::string_view module =
        event.parent < side.event_count() ? last_name(side.event(event.parent).name) : std::string_view();
    name = fmt::format("{}:{}:{}", module, operator_of(event), event.call);
  }
  return fmt::format("{} {} {}", name, record.role, record.path);
}

// Calls of the same operator, or of modules of the same name below their layer, that make tensors of one shape.
std::string OwnErrors::kind_of(uint32_t i) const {
  const TensorRecord record = calls_.record_at(i);
  const Side& side = calls_.side_of(i);
  const bool of_operator = record.event < side.event_count() && is_call_of_operator(side.event(record.event));
  const std::string op = of_operator ? operator_of(side.event(record.event)) : std::string();
  return fmt::format("{} {} {} [{}]", of_operator ? op : last_name(record.name), record.role, record.path,
                     fmt::join(record.shape, ","));
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

bool OwnErrors::judge(uint32_t i) {
  TensorDiff& tensor = tensors_[i];
  if (tensor.verdict != Verdict::kIdentical && tensor.match.a != kNoTensor && tensor.match.b != kNoTensor)
    nothing_unequal_ = nothing_unequal_ && is_from_outside(i);
  if (tensor.judge == nullptr || tensor.judge->predicate) return false;
  // What the user asked for is what counts; beside a mask, and beside what was summed, other scales do.
  if (!std::isfinite(tensor.judge->most_relative) || tensor.judge->scale == tensor.judge->scale) return false;
  // What is out of tolerance may have grown from what came in, or not.
  if (tensor.verdict == Verdict::kDiverged)
    return is_measured(tensor) && is_rounded_once(i) && beyond_inputs(i).verdict == Verdict::kDiverged;
  if (tensor.verdict != Verdict::kWithin) return false;
  if (is_of_question(i)) {
    judge_by_rounding(i);
    return false;
  }
  if (judge_by_argument(i)) return true;
  Unexplained found = beyond_inputs(i);
  if (found.verdict != Verdict::kDiverged && judge_by_setting(i, found.reason)) return true;
  if (found.reason.empty()) return false;
  tensor.verdict = found.verdict;
  tensor.stands_out = found.verdict == Verdict::kInconclusive;
  tensor.reason = std::move(found.reason);
  return is_rounded_once(i);
}

// Whether it is what an operator was given, or a part of it, in another shape or order: what is within tolerance there
// has no error of its own.
bool OwnErrors::moves_values(uint32_t i) const {
  const Match& match = tensors_[i].match;
  const auto moves = [](const Side& side, uint32_t record) {
    const TensorRecord made = side.tensor(record);
    const uint32_t event = made.event;
    return !flow_of(made.role).input && event < side.event_count() && is_call_of_operator(side.event(event)) &&
           (leaves_values_alone(operator_of(side.event(event))) || is_view_op(operator_of(side.event(event))));
  };
  return moves(calls_.a(), match.a) && moves(calls_.b(), match.b);
}

// An argument was replaced by another tensor: the value that it has on the other side was at hand, bit for bit.
bool OwnErrors::judge_by_argument(uint32_t i) {
  if (!calls_.is_of_op(i) || calls_.came_in(i)) return false;
  const Node& node = calls_.of(i);
  if (!node.other || !node.other->replaced) return false;
  tensors_[i].verdict = Verdict::kInconclusive;
  tensors_[i].reason = "what it was given differs by no more than rounding could make, and is no rounding";
  return true;
}

// A setting or an argument that is not the same is told, however little it does; that it does something may still show.
bool OwnErrors::judge_by_setting(uint32_t i, std::string_view stands_out) {
  const SettingDiff* setting = is_from_outside(i) || moves_values(i) ? nullptr : setting_of(i);
  if (setting == nullptr) return false;
  const auto inputs = size_of(i) == CallSize::kCode ? std::nullopt : made_of(i);
  if (stands_out.empty() && inputs && is_in_proportion(calls_.a(), calls_.b(), tensors_[i], *inputs))
    stands_out = "its error is in proportion to the values, as no rounding is";
  // Code that makes an argument need not use the setting: only where it shows is it told.
  if (stands_out.empty() && calls_.came_in(i)) return false;
  tensors_[i].verdict = stands_out.empty() ? Verdict::kInconclusive : Verdict::kDiverged;
  tensors_[i].reason =
      fmt::format("its {}, which {}{}", setting->text(),
                  stands_out.empty() ? "moves it no further than rounding could" : "shows: ", stands_out);
  return true;
}

void OwnErrors::judge_by_rounding(uint32_t i) {
  TensorDiff& tensor = tensors_[i];
  if (tensor.match.combines()) return;  // one side rounds twice where the other rounds once
  if (std::string reason = beyond_rounding(calls_.a(), calls_.b(), tensor, size_of(i), rounded_to(i));
      !reason.empty() && !is_below(rounding_.own_floor_of(i), tensor)) {
    tensor.verdict = Verdict::kDiverged;
    tensor.reason = std::move(reason);
    return;
  }
  if (is_from_outside(i)) {
    // Nothing that differs was there to make it of. In f32 and f64, code that was not recorded may have rounded it.
    if (!is_rounded_once(i)) return;
    tensor.verdict = Verdict::kInconclusive;
    tensor.reason = "its bits differ by no more than rounding could make, and nothing that was recorded rounded it";
    return;
  }
  if (judge_by_setting(i)) return;
  // Another operator, or a compiler's kernel, rounds in its own way.
  if (strict_ || calls_.came_in(i) || tensor.match.by == MatchedBy::kPlace) return;
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
