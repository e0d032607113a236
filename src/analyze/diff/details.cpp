#include <algorithm>
#include <cmath>
#include <tuple>

#include "analyze/diff/diff.h"
#include "analyze/diff/judge/compare_pair.h"

namespace ttap {
namespace {

// A picture that cannot be had is left out.
void add_pictures(const PassDiff& pass, const Match& match, const PairViews& views, PairDetail& detail) {
  const bool is_a = !pass.a->tensor(match.a).group.empty(), is_b = !pass.b->tensor(match.b).group.empty();
  const auto picture = [](const Side& side, uint32_t index, const TensorView* twin) -> std::optional<QuantPicture> {
    auto made = side.picture(index, twin);
    if (!made.ok() && twin != nullptr) made = side.picture(index, nullptr);
    return made.ok() ? std::optional(std::move(made).value()) : std::nullopt;
  };
  if (is_a) detail.quant_a = picture(*pass.a, match.a, is_b ? nullptr : &views.b.view);
  if (is_b) detail.quant_b = picture(*pass.b, match.b, is_a ? nullptr : &views.a.view);
}

}  // namespace

void add_details(DiffReport& report, size_t count, unsigned threads,
                 const std::function<void(uint64_t, uint64_t)>& progress) {
  std::vector<DiffPlace> places;
  for (uint32_t p = 0; p < report.passes.size(); ++p)
    for (uint32_t i = 0; i < report.passes[p].tensors.size(); ++i) {
      const TensorDiff& tensor = report.passes[p].tensors[i];
      if (tensor.measures != nullptr && tensor.evidence == Evidence::kValues) places.push_back({p, i});
    }
  const auto weight = [&](DiffPlace place) {
    const TensorDiff& tensor = report.at(place);
    const double error = relative_error(tensor);
    const int group = tensor.cause == Cause::kIntroduced ? 0 : tensor.verdict == Verdict::kDiverged ? 1 : 2;
    return std::tuple(group, std::isfinite(error) ? -error : -1e300, place.pass, place.tensor);
  };
  std::ranges::sort(places, [&](DiffPlace x, DiffPlace y) { return weight(x) < weight(y); });
  const size_t kept = std::min(places.size(), count);
  report.details.clear();
  report.details_left_out = places.size() - kept;
  for (size_t i = 0; i < kept; ++i) {
    const PassDiff& pass = report.passes[places[i].pass];
    const TensorDiff& tensor = report.at(places[i]);
    const auto views = read_pair(*pass.a, *pass.b, tensor.match);
    if (!views.ok()) continue;
    PairDetail detail =
        detail_of(views->a.view, views->b.view, {.tolerance = tensor.judge->tolerance, .threads = threads});
    add_pictures(pass, tensor.match, *views, detail);
    report.details.emplace_back(places[i], std::move(detail));
    if (progress) progress(i + 1, kept);
  }
}

}  // namespace ttap
