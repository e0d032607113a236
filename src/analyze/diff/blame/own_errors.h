#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyze/diff/blame/blame_options.h"
#include "analyze/diff/blame/call_nodes.h"
#include "analyze/diff/blame/rounding.h"
#include "analyze/diff/judge/own_error.h"
#include "analyze/diff/sides/fp32_precision.h"
#include "analyze/diff/sides/settings.h"

namespace ttap {

// Finds the calls that were given the same bits on both sides, and made something else of them than rounding explains.
class OwnErrors {
 public:
  // All must outlive it; `tensors` as align() orders them.
  OwnErrors(CallNodes& calls, const Rounding& rounding, std::span<const SettingDiff> settings,
            const BlameOptions& options, std::span<TensorDiff> tensors);

  // To be asked in their order. A tensor within the tolerance of its dtype that its call was not to make has diverged
  // afterwards, and its reason says why. One that rounding explains is inconclusive where other calls of the same kind,
  // which were given the same bits too, all made the same bits: the sides do not round differently there. Likewise
  // where a setting or argument of the call is not the same; where its error stands out as well, it has diverged.
  // What an op is given from outside, a weight, is to have the same bits as long as nothing else differs.
  // Gives whether the call made the difference, though what it was given differs within tolerance: what the value was
  // made of does not explain its error, or a setting of the call is not the same.
  bool judge(uint32_t i);

 private:
  struct Kind {
    uint64_t calls = 0;    // given the same bits
    uint64_t values = 0;   // that they made
    uint64_t unequal = 0;  // of those
  };
  bool is_of_question(uint32_t i);
  void judge_by_rounding(uint32_t i);
  bool judge_by_setting(uint32_t i, std::string_view stands_out = {});
  bool judge_by_argument(uint32_t i);
  std::optional<std::vector<const TensorDiff*>> made_of(uint32_t i);
  Unexplained beyond_inputs(uint32_t i);
  std::optional<double> growth_of(uint32_t i, std::span<const TensorDiff* const> made_of) const;
  UsualGrowth usual_growth(uint32_t but_for);
  CallSize size_of(uint32_t i) const;
  DType rounded_to(uint32_t i);
  void count_kinds();
  std::string place_of(uint32_t i) const;
  std::string kind_of(uint32_t i) const;
  const SettingDiff* setting_of(uint32_t i) const;

  bool reads_cache(uint32_t i) const;
  bool is_from_outside(uint32_t i) const;
  bool is_rounded_once(uint32_t i) const;
  bool moves_values(uint32_t i) const;

  CallNodes& calls_;
  const Rounding& rounding_;
  std::span<TensorDiff> tensors_;
  const Fp32Precision fp32_a_, fp32_b_;
  std::unordered_map<std::string_view, const SettingDiff*> settings_;  // the first of a call, by its name in A
  std::unordered_map<std::string, Kind> kinds_;
  std::unordered_map<std::string, std::vector<std::pair<uint32_t, double>>> growths_;  // by place, with positions
  const bool strict_, is_first_pass_;
  bool nothing_unequal_;  // but what came from outside, so far, in this pass and those before it
};

}  // namespace ttap
