#include "analyze/diff/sides/settings.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_set>

#include "analyze/compare/tolerance.h"
#include "analyze/diff/sides/fp32_precision.h"
#include "analyze/ops/event_op.h"

namespace ttap {
namespace {

std::optional<double> number_in(const std::string& text) {
  double value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// 1 and 1.0, 1e-05 and 0.00001 are one number, and so are two that stand for a mask: the lowest of two dtypes.
bool is_same_setting(const std::string& a, const std::string& b) {
  const auto x = number_in(a), y = number_in(b);
  return a == b || (x && y && (*x == *y || (is_masked(*x) && is_masked(*y))));
}

// The arguments of a call that are no tensors, by name or number.
std::map<std::string, std::string> plain_arguments(std::string_view text) {
  std::map<std::string, std::string> found;
  int depth = 0, number = 0;
  char quote = 0;
  std::string word;
  const auto end_word = [&] {
    const size_t from = word.find_first_not_of(' ');
    word = from == std::string::npos ? std::string() : word.substr(from);
    if (word.empty()) return;
    const size_t equals = word.find('=');
    const bool named = equals != std::string::npos && word.find_first_of("'\"([%") > equals;
    std::string name = named ? word.substr(0, equals) : fmt::format("argument {}", number);
    std::string value = named ? word.substr(equals + 1) : word;
    if (value.find('%') == std::string::npos) found.emplace(std::move(name), std::move(value));
    ++number;
  };
  for (const char c : text) {
    if (quote != 0) {
      quote = c == quote ? 0 : quote;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '(' || c == '[') {
      ++depth;
    } else if (c == ')' || c == ']') {
      --depth;
    } else if (c == ',' && depth == 0) {
      end_word();
      word.clear();
      continue;
    }
    word += c;
  }
  end_word();
  return found;
}

class Settings {
 public:
  Settings(const Side& a, const Side& b) : a_(a), b_(b), fp32_a_(a), fp32_b_(b) {}

  void add(const Match& match) {
    const TensorRecord of_a = a_.tensor(match.a), of_b = b_.tensor(match.b);
    if (of_a.event >= a_.event_count() || of_b.event >= b_.event_count()) return;
    if (!seen_.insert(uint64_t{of_a.event} << 32 | of_b.event).second) return;
    const EventRecord call_a = a_.event(of_a.event), call_b = b_.event(of_b.event);
    const bool op_a = is_call_of_operator(call_a), op_b = is_call_of_operator(call_b);
    if (op_a != op_b) return;
    if (dtype_of(of_a) == DType::kF32 && dtype_of(of_b) == DType::kF32)
      if (std::string in_a = fp32_a_.name_of(match.a), in_b = fp32_b_.name_of(match.b); in_a != in_b)
        found_.push_back({call_name(call_a), call_name(call_b), "fp32_precision", std::move(in_a), std::move(in_b)});
    if (!op_a) return add_modules(call_a.name, call_b.name);
    if (operator_of(call_a) != operator_of(call_b) || call_a.kind != "op" || call_b.kind != "op") return;
    compare(call_name(call_a), call_name(call_b), plain_arguments(call_a.arguments), plain_arguments(call_b.arguments),
            true, true);
  }
  // Those for several parameters at once.
  void add_optimizers() {
    const ModulesByName *of_a = a_.optimizers(), *of_b = b_.optimizers();
    if (of_a == nullptr || of_b == nullptr) return;
    std::map<std::tuple<std::string, std::string, std::string>, SettingDiff> found;
    for (const auto& [parameter, optimizer] : *of_a) {
      const auto other = of_b->find(parameter);
      if (other == of_b->end() || optimizer.class_name() != other->second.class_name()) continue;
      for (const auto& [name, value] : optimizer.settings) {
        const auto setting = other->second.settings.find(name);
        if (setting == other->second.settings.end() || is_same_setting(value, setting->second)) continue;
        SettingDiff& diff = found[{name, value, setting->second}];
        diff.call_a = diff.call_b = optimizer.class_name();
        diff.name = name, diff.a = value, diff.b = setting->second;
        diff.parameters.push_back(parameter);
      }
    }
    for (auto& [key, diff] : found) {
      const size_t others = diff.parameters.size() - 1;
      const std::string whose = fmt::format("{} of {}{}", diff.call_a, diff.parameters.front(),
                                            others > 0 ? fmt::format(" and {} more", others) : std::string());
      diff.call_a = diff.call_b = whose;
      found_.push_back(std::move(diff));
    }
  }
  std::vector<SettingDiff> take() { return std::move(found_); }

 private:
  static std::string call_name(const EventRecord& event) {
    return event.call == 1 ? std::string(event.name) : fmt::format("{}::call{}", event.name, event.call);
  }
  void add_modules(std::string_view name_a, std::string_view name_b) {
    if (!modules_.emplace(name_a, name_b).second) return;
    const ModuleFacts *module_a = a_.module(name_a), *module_b = b_.module(name_b);
    if (module_a == nullptr || module_b == nullptr) return;
    if (module_a->settings.empty() || module_b->settings.empty()) return;  // not known of what ranks share
    compare(std::string(name_a), std::string(name_b), module_a->settings, module_b->settings,
            module_a->type == module_b->type, false);
  }
  void compare(const std::string& call_a, const std::string& call_b, const std::map<std::string, std::string>& a,
               const std::map<std::string, std::string>& b, bool all, bool of_operator) {
    for (const auto& [name, value] : a) {
      const auto other = b.find(name);
      if (other == b.end() ? all : !is_same_setting(value, other->second))
        found_.push_back(
            {call_a, call_b, name, value, other == b.end() ? std::string() : other->second, {}, of_operator});
    }
    for (const auto& [name, value] : b)
      if (all && !a.contains(name)) found_.push_back({call_a, call_b, name, {}, value, {}, of_operator});
  }

  const Side& a_;
  const Side& b_;
  const Fp32Precision fp32_a_, fp32_b_;
  std::unordered_set<uint64_t> seen_;  // numbers of both events
  std::set<std::pair<std::string_view, std::string_view>> modules_;
  std::vector<SettingDiff> found_;
};

// Whether what was matched are no two calls of the same kind: one is a part of the other, or they were only given the
// same.
bool is_part(const Side& a, const Match& match) {
  const bool by_key = match.by != MatchedBy::kStructure && match.by != MatchedBy::kValues;
  return match.is_made() || match.by == MatchedBy::kDeclared || (!by_key && a.tensor(match.a).role == "in");
}

}  // namespace

bool SettingDiff::changes_result() const {
  if (number_in(a) && number_in(b)) return true;
  const auto is_word = [](const std::string& text) { return text.starts_with('\'') || text.starts_with('"'); };
  return of_operator && (is_word(a) || a.empty()) && (is_word(b) || b.empty());
}

std::string SettingDiff::text() const {
  if (a.empty()) return fmt::format("{} is {} in B, and A has none", name, b);
  if (b.empty()) return fmt::format("{} is {} in A, and B has none", name, a);
  return fmt::format("{} is {} in A and {} in B", name, a, b);
}

std::vector<SettingDiff> differing_settings(const Side& a, const Side& b, std::span<const TensorDiff> tensors) {
  Settings settings(a, b);
  settings.add_optimizers();
  for (const TensorDiff& tensor : tensors)
    if (tensor.match.a != kNoTensor && tensor.match.b != kNoTensor && !is_part(a, tensor.match))
      settings.add(tensor.match);
  return settings.take();
}

}  // namespace ttap
