#include "analyze/diff/judge/compare_pair.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <tuple>

#include "analyze/check/quant_groups.h"
#include "analyze/diff/judge/compare_fingerprints.h"
#include "analyze/diff/judge/mask.h"
#include "analyze/diff/sides/joined_bytes.h"
#include "analyze/diff/sides/made_value.h"
#include "core/element.h"
#include "ttap/group.h"

namespace ttap {
namespace {

DType true_dtype(const TensorRecord& record) { return record.true_dtype.value_or(record.dtype); }

std::vector<int64_t> without_ones(std::span<const int64_t> shape) {
  std::vector<int64_t> rest(shape.begin(), shape.end());
  std::erase(rest, 1);
  return rest;
}

// Whether B's elements can be read in A's shape.
bool comparable(const TensorRecord& a, const TensorRecord& b, MatchedBy by) {
  if (std::ranges::equal(a.shape, b.shape)) return true;
  if (without_ones(a.shape) == without_ones(b.shape)) return true;
  // An op may make of rows what another makes of batches of rows.
  return by != MatchedBy::kKey && by != MatchedBy::kMap &&
         element_count({.shape = a.shape}) == element_count({.shape = b.shape});
}

// Whether one shape only splits or joins neighbouring axes of the other: [2, 20, 64] and [40, 64], not [4, 6] and
// [6, 4].
bool reads_as(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  if (element_count({.shape = a}) != element_count({.shape = b})) return false;
  const std::vector<int64_t> x = without_ones(a), y = without_ones(b);
  if (std::ranges::count(x, 0) > 0) return true;
  size_t i = 0, j = 0;
  while (i < x.size() && j < y.size()) {
    int64_t of_x = x[i++], of_y = y[j++];
    size_t more_x = 0, more_y = 0;
    while (of_x != of_y) {
      if (of_x < of_y ? i == x.size() : j == y.size()) return false;
      of_x < of_y ? (of_x *= x[i++], ++more_x) : (of_y *= y[j++], ++more_y);
    }
    if (more_x > 0 && more_y > 0) return false;
  }
  return i == x.size() && j == y.size();
}

bool same_packed_bits(const TensorView& a, const TensorView& b) {
  if (a.dtype != b.dtype || !is_contiguous(a) || !is_contiguous(b)) return false;
  return byte_count(a) == 0 || std::memcmp(a.data, b.data, byte_count(a)) == 0;
}

double rms_of(const Stats& stats) {
  return stats.finite() == 0 ? std::nan("") : stats.l2 / std::sqrt(static_cast<double>(stats.finite()));
}

bool is_rotated(const TensorRecord& record) {
  const auto format = quantized_as(record);
  return format && format->rotated;
}

// Whether the least and the largest of its integers lie where Linux puts what a program allocates, on x86-64 and ARM,
// as malloc() aligns it. Times and random numbers lie elsewhere: milliseconds below, the others above.
bool looks_like_addresses(const TensorRecord& record) {
  constexpr double kLowest = 0x1p44, kEnd = 0x1p48, kAligned = 16;
  if ((record.dtype != DType::kI64 && record.dtype != DType::kU64) || !record.has_fingerprint) return false;
  return std::ranges::all_of(std::array{record.fingerprint.stats.min, record.fingerprint.stats.max}, [&](double value) {
    return value >= kLowest && value < kEnd && std::fmod(value, kAligned) == 0;
  });
}

// As recorded, else from the bytes.
Stats stats_of(const TensorRecord& record, const TensorView& view) {
  return record.has_fingerprint ? record.fingerprint.stats : fingerprint(view).stats;
}

struct Scale {
  double rms = 0;    // of A's values that differ in B
  double whole = 0;  // such that rmse / whole is the error of those values beside their size
};

// Where a mask is part of a tensor, its root mean square is that of the mask, and nothing else counts. What differs is
// then judged by its own size.
std::optional<Scale> scale_without_mask(const TensorView& a, const TensorView& b) {
  const auto plain = [](const TensorView& view) {
    return dtype_info(view.dtype).kind == DTypeKind::kFloat && view.dtype != DType::kF4E2M1FNx2 && is_contiguous(view);
  };
  if (!plain(a) || !plain(b)) return std::nullopt;
  const uint64_t count = element_count(a);
  double sum = 0;
  uint64_t unequal = 0, finite = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const double x = value_of(a.dtype, static_cast<const std::byte*>(a.data) + i * size_of(a.dtype));
    const double y = value_of(b.dtype, static_cast<const std::byte*>(b.data) + i * size_of(b.dtype));
    if (!std::isfinite(x) || !std::isfinite(y)) continue;
    ++finite;
    if (x == y) continue;
    ++unequal;
    sum += x * x;
  }
  if (unequal == 0) return std::nullopt;
  return Scale{std::sqrt(sum / static_cast<double>(unequal)), std::sqrt(sum / static_cast<double>(finite))};
}

std::vector<AxisWorst> worst_of(std::span<const AxisError> axes) {
  std::vector<AxisWorst> worst;
  for (const AxisError& axis : axes) {
    double total = 0;
    for (const double mean_sq : axis.mean_sq) total += mean_sq;
    const auto most = std::ranges::max_element(axis.mean_sq);
    if (axis.mean_sq.size() < 2 || !(total > 0)) continue;
    const auto entry = static_cast<size_t>(most - axis.mean_sq.begin());
    worst.push_back({axis.axis, entry * axis.width, axis.width, axis.max_abs[entry], *most / total});
  }
  return worst;
}

std::optional<Measures> noise_of(const PairContext& context, uint32_t a, const TensorView& view) {
  if (context.noise == nullptr || (*context.noise_of)[a] == kNoTensor) return std::nullopt;
  const uint32_t c = (*context.noise_of)[a];
  const TensorRecord record = context.a.tensor(a), other = context.noise->tensor(c);
  if (!std::ranges::equal(record.shape, other.shape) || !other.has_bytes) return std::nullopt;
  const auto bytes = context.noise->read(c);
  if (!bytes.ok()) return std::nullopt;
  return measure(view, bytes->view, {.tolerance = {.equal_nan = true}, .axes = false});
}

void name_ranks(const PairContext& context, TensorDiff& tensor) {
  if (tensor.measures == nullptr || !tensor.measures->worst || !differs(tensor)) return;
  const uint64_t worst = tensor.measures->worst->element;
  for (const auto& [side, index, made] : {std::tuple(&context.a, tensor.match.a, tensor.match.made_a.get()),
                                          std::tuple(&context.b, tensor.match.b, tensor.match.made_b.get())})
    for (const auto& [source, element] : sources_of(*side, index, made, worst))
      for (const uint32_t rank : side->ranks_of(source, element))
        if (std::ranges::find(tensor.ranks, rank) == tensor.ranks.end()) tensor.ranks.push_back(rank);
}

void compare_values(const PairContext& context, TensorDiff& tensor, unsigned threads) {
  const TensorRecord a = context.a.tensor(tensor.match.a), b = context.b.tensor(tensor.match.b);
  const auto views = read_pair(context.a, context.b, tensor.match);
  if (!views.ok()) {
    // What is damaged or cannot be read may still be known to differ.
    if (tensor.match.is_made()) {
      tensor.verdict = Verdict::kInconclusive;
    } else {
      compare_fingerprints(context.tolerances, a, b, context.judged_by(tensor.match), tensor);
    }
    tensor.reason = views.error().describe();
    return;
  }
  tensor.evidence = Evidence::kValues;
  if (!views->note.empty()) tensor.note = views->note;
  const bool same_dtype = true_dtype(a) == true_dtype(b);
  const bool same_values = tensor.match.is_made() && views->a.view.dtype == views->b.view.dtype
                               ? same_bits(views->a.view, views->b.view)
                               : same_packed_bits(views->a.view, views->b.view);
  if (same_dtype && same_values) {
    tensor.verdict = Verdict::kIdentical;
    return;
  }
  const std::optional<Measures> noise =
      tensor.match.made_a != nullptr ? std::nullopt : noise_of(context, tensor.match.a, views->a.view);
  if (tensor.match.made_a != nullptr) tensor.shape.assign(views->a.view.shape.begin(), views->a.view.shape.end());
  Stats stats = tensor.match.is_made() ? fingerprint(views->a.view).stats : stats_of(a, views->a.view);
  TensorView view_a = views->a.view, view_b = views->b.view;
  const auto unmasked = is_masked(stats.min) || stats.neg_inf > 0 ? without_mask(view_a, view_b) : std::nullopt;
  if (unmasked) {
    view_a = unmasked->a, view_b = unmasked->b;
    stats = fingerprint(view_a).stats;
    tensor.note += (tensor.note.empty() ? "" : "; ") + std::string("masked values are compared as a mask");
  }
  const auto masked = stats.max_abs >= kSentinel ? scale_without_mask(view_a, view_b) : std::optional<Scale>();
  const Stats stats_b = b.group.empty() ? Stats{} : stats_of(b, views->b.view);
  const auto quant = quant_tolerance_of(a, b, &stats, &stats_b);
  tensor.judge = std::make_unique<Judge>(context.tolerances.judge(
      to_string(a.key()), context.judged_by(tensor.match), masked ? masked->rms : rms_of(stats),
      noise ? &*noise : nullptr, quant ? &*quant : nullptr));
  if (masked) tensor.judge->scale = masked->whole;
  tensor.measures = std::make_unique<Measures>(
      measure(view_a, view_b, {.tolerance = tensor.judge->tolerance, .axes = true, .threads = threads}));
  Measures& found = *tensor.measures;
  tensor.axes = worst_of(found.axes);
  found.axes = {};
  tensor.verdict = tensor.judge->accepts(found) ? Verdict::kWithin : Verdict::kDiverged;
  name_ranks(context, tensor);
}

// Where ranks of B should hold the same and do not: each of them against A. Rank 0 alone would hide the others' faults.
void compare_replicas(const PairContext& context, TensorDiff& tensor, unsigned threads) {
  const std::vector<uint32_t> ranks = context.b.differing_replicas(tensor.match.b);
  if (ranks.empty() || tensor.verdict == Verdict::kShapeMismatch) return;
  for (const uint32_t rank : ranks) {
    const auto views = read_pair(context.a, context.b, tensor.match, &rank);
    if (!views.ok() || !std::ranges::equal(views->a.view.shape, views->b.view.shape)) continue;
    const TensorView &a = views->a.view, &b = views->b.view;
    const TensorRecord record = context.a.tensor(tensor.match.a);
    if (tensor.judge == nullptr) {
      const TensorRecord other = context.b.tensor(tensor.match.b);
      const Stats stats = tensor.match.is_made() ? fingerprint(a).stats : stats_of(record, a);
      const Stats stats_b = other.group.empty() ? Stats{} : stats_of(other, b);
      const auto quant = quant_tolerance_of(record, other, &stats, &stats_b);
      tensor.judge = std::make_unique<Judge>(context.tolerances.judge(
          to_string(record.key()), context.judged_by(tensor.match), rms_of(stats), nullptr, quant ? &*quant : nullptr));
    }
    Measures found = measure(a, b, {.tolerance = tensor.judge->tolerance, .axes = false, .threads = threads});
    const bool close = tensor.judge->accepts(found);
    if (!close && std::ranges::find(tensor.ranks, rank) == tensor.ranks.end()) tensor.ranks.push_back(rank);
    if (close || tensor.verdict == Verdict::kDiverged) continue;
    tensor.verdict = Verdict::kDiverged;
    tensor.evidence = Evidence::kValues;
    tensor.measures = std::make_unique<Measures>(std::move(found));
  }
}

// A pair of which one side or both are made of what was recorded. A fingerprint says nothing of a part.
void compare_made(const PairContext& context, TensorDiff& tensor, unsigned threads) {
  const Match& match = tensor.match;
  std::vector<int64_t> shapes[2];
  tensor.verdict = Verdict::kInconclusive;
  for (const auto& [side, index, made, shape] : {std::tuple(&context.a, match.a, match.made_a.get(), &shapes[0]),
                                                 std::tuple(&context.b, match.b, match.made_b.get(), &shapes[1])}) {
    const TensorRecord record = side->tensor(index);
    auto made_shape = made != nullptr ? shape_of_made(*side, *made)
                                      : Result<std::vector<int64_t>>({record.shape.begin(), record.shape.end()});
    if (!made_shape.ok()) {
      tensor.reason = made_shape.error().message;
      return;
    }
    *shape = std::move(made_shape).value();
    if (made != nullptr ? has_bytes(*side, *made) : record.has_bytes) continue;
    tensor.reason = fmt::format(
        "no bytes were kept of {}'s {}, and fingerprints cannot be sliced or combined: record at level full",
        side == &context.a ? "A" : "B", to_string(record.key()));
  }
  if (match.by == MatchedBy::kMap ? !reads_as(shapes[0], shapes[1])
                                  : element_count({.shape = shapes[0]}) != element_count({.shape = shapes[1]})) {
    tensor.verdict = Verdict::kShapeMismatch;
    tensor.reason = fmt::format("shape [{}] in A, [{}] in B, as the {} says", fmt::join(shapes[0], ", "),
                                fmt::join(shapes[1], ", "), match.by == MatchedBy::kMap ? "map" : "recording");
    return;
  }
  if (!tensor.reason.empty()) return;
  compare_values(context, tensor, threads);
  compare_replicas(context, tensor, threads);
}

}  // namespace

DType PairContext::judged_by(const Match& match) const {
  const auto of = [](const Side& side, const std::vector<DType>* precision, uint32_t index) {
    return precision != nullptr ? (*precision)[index] : true_dtype(side.tensor(index));
  };
  return coarser(of(a, precision_a, match.a), of(b, precision_b, match.b));
}

double rms_of(const TensorRecord& record) {
  return record.has_fingerprint ? rms_of(record.fingerprint.stats) : std::nan("");
}

std::optional<QuantTolerance> quant_tolerance_of(const TensorRecord& a, const TensorRecord& b, const Stats* stats_a,
                                                 const Stats* stats_b) {
  // Equal values are rounded to equal codes: the format explains no difference.
  if (same_format(a, b)) return std::nullopt;
  std::optional<QuantTolerance> granted;
  for (const auto& [record, stats] : {std::pair(&a, stats_a), std::pair(&b, stats_b)})
    if (const auto format = quantized_as(*record)) {
      const QuantTolerance own = quant_tolerance(*format, stats->max_abs);
      granted = granted ? coarser(*granted, own) : own;
    }
  return granted;
}

Result<PairViews> read_pair(const Side& a, const Side& b, const Match& match, const uint32_t* rank_b) {
  PairViews views;
  TTAP_ASSIGN(views.a, read_made(a, match.a, match.made_a.get()));
  TTAP_ASSIGN(views.b, read_made(b, match.b, match.made_b.get(), rank_b));
  for (const auto& [side, made, name] :
       {std::tuple(&a, match.made_a.get(), "A"), std::tuple(&b, match.made_b.get(), "B")})
    if (made != nullptr)
      views.note += fmt::format("{}{}'s is {}", views.note.empty() ? "" : "; ", name, made_text(*side, *made));
  const std::span<const int64_t> wanted = views.a.view.shape, given = views.b.view.shape;
  if (std::ranges::equal(wanted, given)) return views;
  if (element_count(views.a.view) != element_count(views.b.view))
    return Error{.code = ErrorCode::kUnsupported, .message = "the two have not as many elements"};
  if (!match.is_made())
    views.note = fmt::format("B's shape [{}] read as [{}]", fmt::join(given, ", "), fmt::join(wanted, ", "));
  if (!is_contiguous(views.b.view)) {
    return Error{.code = ErrorCode::kUnsupported, .message = "a strided tensor cannot be read in another shape"};
  }
  views.b.shape.assign(wanted.begin(), wanted.end());
  views.b.view.shape = views.b.shape;
  views.b.view.strides = {};
  return views;
}

void compare_pair(const PairContext& context, TensorDiff& tensor, unsigned threads) {
  const Match& match = tensor.match;
  if (match.b == kNoTensor || match.a == kNoTensor) {
    tensor.verdict = match.b == kNoTensor ? Verdict::kMissing : Verdict::kExtra;
    return;
  }
  const TensorRecord a = context.a.tensor(match.a), b = context.b.tensor(match.b);
  const auto notes = [&](const Side& side, uint32_t index) {
    if (const std::string note = side.note(index); !note.empty())
      tensor.note += (tensor.note.empty() ? "" : "; ") + note;
  };
  if (match.is_made()) {
    compare_made(context, tensor, threads);
    return;
  }
  if (!comparable(a, b, match.by)) {
    tensor.verdict = Verdict::kShapeMismatch;
    tensor.reason = fmt::format("shape [{}] in A, [{}] in B", fmt::join(a.shape, ", "), fmt::join(b.shape, ", "));
  } else if (a.has_fingerprint && b.has_fingerprint && true_dtype(a) == true_dtype(b) && a.dtype == b.dtype &&
             a.fingerprint.hash == b.fingerprint.hash) {
    tensor.verdict = Verdict::kIdentical;
    tensor.evidence = Evidence::kHash;
  } else if (context.addresses && looks_like_addresses(a) && looks_like_addresses(b)) {
    tensor.verdict = Verdict::kIdentical;
    tensor.note = "addresses of memory, which are others in every process";
  } else if (a.has_bytes && b.has_bytes) {
    compare_values(context, tensor, threads);
  } else {
    compare_fingerprints(context.tolerances, a, b, context.judged_by(tensor.match), tensor);
    if (tensor.evidence == Evidence::kNothing && (is_rotated(a) || is_rotated(b)))
      tensor.reason = "its values were rotated before they were quantized: its parts tell whether it is the same";
  }
  compare_replicas(context, tensor, threads);
  for (const auto& [record, side] : {std::pair(&a, "A"), std::pair(&b, "B")})
    if (const auto format = quantized_as(*record); format && record->has_bytes)
      tensor.note += fmt::format("{}{} decoded from {}", tensor.note.empty() ? "" : "; ", side, format->name);
  notes(context.a, match.a);
  notes(context.b, match.b);
}

}  // namespace ttap
