#include "analyze/diff/match/declared_match.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

namespace ttap {
namespace {

// The results and parameters of modules by name, call, role and path.
using Results = std::map<std::tuple<std::string_view, uint32_t, std::string_view, std::string_view>, uint32_t>;

Results results_of(const Side& side) {
  Results results;
  for (uint32_t i = 0; i < side.tensor_count(); ++i)
    if (const TensorRecord record = side.tensor(i); record.role == "out" || record.role == "param")
      results.try_emplace({record.name, record.call, record.role, record.path}, i);
  return results;
}

// The floats that each call was given, in their order, by name and call.
using Inputs = std::map<std::pair<std::string_view, uint32_t>, std::vector<uint32_t>>;

Inputs inputs_of(const Side& side) {
  Inputs inputs;
  for (uint32_t i = 0; i < side.tensor_count(); ++i)
    if (const TensorRecord record = side.tensor(i);
        record.role == "in" && dtype_info(dtype_of(record)).kind == DTypeKind::kFloat)
      inputs[{record.name, record.call}].push_back(i);
  return inputs;
}

// The only result of a call, or the first of several.
uint32_t result_of(const Results& results, std::string_view name, uint32_t call) {
  for (const std::string_view path : {"", "/0"})
    if (const auto found = results.find({name, call, "out", path}); found != results.end()) return found->second;
  return kNoTensor;
}

class DeclaredMatcher {
 public:
  // `fused` is the side whose modules declare something; `is_a`: it is A.
  DeclaredMatcher(const Side& fused, const Side& plain, bool is_a, Pairing& pairing)
      : fused_(fused), plain_(plain), is_a_(is_a), pairing_(pairing) {}

  void run() {
    for (uint32_t i = 0; i < fused_.tensor_count(); ++i) {
      const TensorRecord record = fused_.tensor(i);
      const bool is_result = record.role == "out" && (record.path.empty() || record.path == "/0");
      if (!is_result && record.role != "param") continue;
      const ModuleFacts* facts = fused_.module(record.name);
      if (facts == nullptr || !facts->declares_fusion()) continue;
      // Both have it fused.
      if (const ModuleFacts* other = plain_.module(record.name); other != nullptr && other->declares_fusion()) continue;
      if (results_.empty()) read_sides();
      if (is_result) match_inputs(record, *facts);
      const bool is_sliced = is_a_ ? pairing_.is_sliced_a(i) : pairing_.is_sliced_b(i);
      if (!is_free(is_a_, i) && !is_sliced) continue;
      if (!facts->parts.empty()) match_parts(i, record, siblings(record, facts->parts));
      if (!is_result || is_sliced) continue;
      if (!facts->product.empty()) match_product(i, record, siblings(record, facts->product));
      if (facts->sums) match_sum(i, record);
      if (facts->times != 1) match_scaled(i, record, facts->times);
    }
  }

 private:
  bool is_free(bool of_a, uint32_t tensor) const {
    return of_a ? pairing_.is_free_a(tensor) : pairing_.is_free_b(tensor);
  }

  // The other side's results of modules beside this one; empty where one is missing, or has a partner.
  std::vector<uint32_t> siblings(const TensorRecord& record, const std::vector<std::string>& names) const {
    const size_t dot = record.name.rfind('.');
    const std::string parent(dot == std::string_view::npos ? "" : record.name.substr(0, dot + 1));
    std::vector<uint32_t> found;
    for (const std::string& name : names) {
      found.push_back(counterpart_of(record, parent + name));
      if (found.back() == kNoTensor) return {};
    }
    return found;
  }

  // The result, or the parameter of the same name, of another module.
  uint32_t counterpart_of(const TensorRecord& record, const std::string& module) const {
    if (record.role == "out") return result_of(results_, module, record.call);
    const auto found = results_.find({module, record.call, record.role, record.path});
    return found != results_.end() ? found->second : kNoTensor;
  }

  void read_sides() {
    results_ = results_of(plain_);
    results_of_fused_ = results_of(fused_);
    inputs_ = inputs_of(plain_);
    inputs_of_fused_ = inputs_of(fused_);
  }

  // The first float that a call was given; kNoTensor where none was recorded, or it has a partner.
  uint32_t input_of(std::string_view name, uint32_t call) const {
    const auto found = inputs_.find({name, call});
    return found != inputs_.end() && is_free(!is_a_, found->second.front()) ? found->second.front() : kNoTensor;
  }

  void match_inputs(const TensorRecord& record, const ModuleFacts& facts) {
    const auto found = inputs_of_fused_.find({record.name, record.call});
    if (found == inputs_of_fused_.end()) return;
    const uint32_t given = found->second.front();
    const TensorRecord input = fused_.tensor(given);
    // All parts are given the same.
    for (const uint32_t part : siblings(record, facts.parts))
      if (const uint32_t plain = input_of(plain_.tensor(part).name, record.call);
          plain != kNoTensor && std::ranges::equal(plain_.tensor(plain).shape, input.shape))
        join(given, plain);
    // A fused activation is given what its factors are made of side by side: the first one's comes first.
    const std::vector<uint32_t> factors = siblings(record, facts.product);
    if (const uint32_t plain = factors.empty() ? kNoTensor : input_of(plain_.tensor(factors[0]).name, record.call);
        plain != kNoTensor && width_of(input) == factors.size() * width_of(plain_.tensor(plain)))
      join(given, plain, made_of(given, {.axis = -1, .numbers = entries(0, width_of(plain_.tensor(plain)))}));
    const uint32_t plain = facts.sums_inputs ? input_of(record.name, record.call) : kNoTensor;
    if (plain == kNoTensor) return;
    // The first layer is given no residual.
    if (found->second.size() == 1) {
      if (std::ranges::equal(plain_.tensor(plain).shape, input.shape)) join(given, plain);
    } else if (std::ranges::equal(fused_.tensor(found->second[1]).shape, input.shape)) {
      join_sum(given, found->second[1], plain);
    }
  }

  static std::vector<int64_t> entries(uint64_t first, uint64_t count) {
    std::vector<int64_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), static_cast<int64_t>(first));
    return numbers;
  }
  static MadeValue made_of(uint32_t tensor, ValueStep step) { return {{{tensor, {std::move(step)}}}}; }

  void join_sum(uint32_t fused, uint32_t second, uint32_t plain) {
    join(fused, plain, MadeValue{{{fused}, {second}}, MadeValue::Join::kSum});
    is_a_ ? pairing_.close_a(second, true) : pairing_.close_b(second, true);
  }

  // The size of the axis along which parts lie side by side: columns of a result, rows of a weight.
  static uint64_t width_of(const TensorRecord& record) {
    if (record.shape.empty()) return 0;
    return static_cast<uint64_t>(record.role == "param" ? record.shape.front() : record.shape.back());
  }

  // `made`: how the side with the fused module, or the plain one, has it.
  void join(uint32_t fused, uint32_t plain, std::optional<MadeValue> made = {}, bool of_plain = false) {
    Match match{.a = is_a_ ? fused : plain, .b = is_a_ ? plain : fused, .by = MatchedBy::kDeclared};
    if (made) (is_a_ != of_plain ? match.made_a : match.made_b) = std::make_shared<const MadeValue>(*std::move(made));
    pairing_.join_part(std::move(match));
  }

  void match_parts(uint32_t fused, const TensorRecord& record, const std::vector<uint32_t>& parts) {
    const uint64_t width = width_of(record), count = element_count({.shape = record.shape});
    uint64_t total = 0;
    for (const uint32_t part : parts) {
      const TensorRecord of_part = plain_.tensor(part);
      total += width_of(of_part);
      // As many rows each.
      if (element_count({.shape = of_part.shape}) * width != count * width_of(of_part)) return;
    }
    if (parts.empty() || total != width) return;
    uint32_t first = 0;
    for (const uint32_t part : parts) {
      const uint64_t part_width = width_of(plain_.tensor(part));
      if (is_free(!is_a_, part))
        join(fused, part,
             made_of(fused, {.axis = record.role == "param" ? 0 : -1, .numbers = entries(first, part_width)}));
      first += static_cast<uint32_t>(part_width);
    }
  }

  void match_product(uint32_t fused, const TensorRecord& record, const std::vector<uint32_t>& factors) {
    if (factors.size() != 2 || !is_free(!is_a_, factors[0])) return;
    for (const uint32_t factor : factors)
      if (!std::ranges::equal(plain_.tensor(factor).shape, record.shape)) return;
    join(fused, factors[0], MadeValue{{{factors[0]}, {factors[1]}}, MadeValue::Join::kProduct}, true);
  }

  void match_scaled(uint32_t fused, const TensorRecord& record, double factor) {
    const uint32_t plain = result_of(results_, record.name, record.call);
    if (plain == kNoTensor || !is_free(!is_a_, plain) || !std::ranges::equal(plain_.tensor(plain).shape, record.shape))
      return;
    join(fused, plain, made_of(fused, {.kind = ValueStep::Kind::kScale, .factor = factor}));
  }

  void match_sum(uint32_t fused, const TensorRecord& record) {
    const auto second = results_of_fused_.find({record.name, record.call, "out", "/1"});
    const uint32_t plain = result_of(results_, record.name, record.call);
    if (record.path != "/0" || second == results_of_fused_.end() || plain == kNoTensor || !is_free(!is_a_, plain))
      return;
    if (!std::ranges::equal(fused_.tensor(second->second).shape, record.shape)) return;
    join_sum(fused, second->second, plain);
  }

  const Side& fused_;
  const Side& plain_;
  const bool is_a_;
  Pairing& pairing_;
  Results results_, results_of_fused_;
  Inputs inputs_, inputs_of_fused_;
};

}  // namespace

void match_declared(const Side& a, const Side& b, Pairing& pairing) {
  DeclaredMatcher(b, a, false, pairing).run();
  DeclaredMatcher(a, b, true, pairing).run();
}

}  // namespace ttap
