#include "analyze/diff/judge/judge_parts.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "analyze/check/quant_groups.h"
#include "analyze/diff/match/quant_parts.h"
#include "ttap/group.h"

namespace ttap {

void judge_by_parts(const Side& a, const Side& b, std::span<TensorDiff> tensors) {
  const auto is_open = [](const TensorDiff& tensor) {
    return tensor.verdict == Verdict::kInconclusive && tensor.evidence == Evidence::kNothing;
  };
  if (std::ranges::none_of(tensors, is_open)) return;
  const QuantParts parts_a(a), parts_b(b);
  if (parts_a.none() || parts_b.none()) return;
  std::unordered_map<size_t, const TensorDiff*> identical;  // by their tensor in A
  for (const TensorDiff& tensor : tensors)
    if (tensor.verdict == Verdict::kIdentical) identical.emplace(tensor.match.a, &tensor);
  for (TensorDiff& tensor : tensors) {
    if (!is_open(tensor)) continue;
    const auto *of_a = parts_a.of(tensor.match.a), *of_b = parts_b.of(tensor.match.b);
    const TensorRecord whole_a = a.tensor(tensor.match.a), whole_b = b.tensor(tensor.match.b);
    if (of_a == nullptr || of_b == nullptr || !same_format(whole_a, whole_b) || whole_a.dtype != whole_b.dtype ||
        !std::ranges::equal(whole_a.shape, whole_b.shape))
      continue;
    const auto description = group_description_from_json(whole_a.group);
    const auto description_b = group_description_from_json(whole_b.group);
    if (!description.ok() || !description_b.ok() || description->parts != description_b->parts) continue;
    Evidence evidence = Evidence::kHash;
    const bool same = std::ranges::all_of(description->parts, [&](const std::string& step) {
      const auto part_a = of_a->find(step), part_b = of_b->find(step);
      if (part_a == of_a->end() || part_b == of_b->end()) return false;
      const auto found = identical.find(part_a->second);
      if (found == identical.end() || found->second->match.b != part_b->second) return false;
      if (found->second->evidence != Evidence::kHash) evidence = found->second->evidence;
      return true;
    });
    if (!same || description->parts.empty()) continue;
    tensor.verdict = Verdict::kIdentical;
    tensor.evidence = evidence;
    tensor.reason.clear();
    tensor.note += (tensor.note.empty() ? "" : "; ") + std::string("all of its parts are the same");
  }
}

}  // namespace ttap
