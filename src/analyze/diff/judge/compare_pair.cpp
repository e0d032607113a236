#include "analyze/diff/judge/compare_pair.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "analyze/check/quant_groups.h"
#include "analyze/diff/judge/compare_fingerprints.h"
#include "analyze/diff/judge/mask.h"
#include "analyze/diff/sides/joined_bytes.h"
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

Status transpose(SideBytes& bytes) {
  const TensorView& view = bytes.view;
  if (!is_contiguous(view) || view.shape.size() != 2 || view.dtype == DType::kF4E2M1FNx2)
    return Error{.code = ErrorCode::kUnsupported, .message = "only a matrix in C order can be transposed"};
  const size_t size = size_of(view.dtype);
  const auto rows = static_cast<size_t>(view.shape[0]), width = static_cast<size_t>(view.shape[1]);
  std::vector<std::byte> turned(rows * width * size);
  for (size_t row = 0; row < rows; ++row)
    for (size_t column = 0; column < width; ++column)
      std::memcpy(turned.data() + (column * rows + row) * size,
                  static_cast<const std::byte*>(view.data) + (row * width + column) * size, size);
  bytes.decoded = std::move(turned);
  bytes.shape = {static_cast<int64_t>(width), static_cast<int64_t>(rows)};
  bytes.view.data = bytes.decoded.data();
  bytes.view.shape = bytes.shape;
  bytes.view.strides = {};
  return {};
}

// Leaves these columns of a tensor, in this order, or rows.
Status take_columns(SideBytes& bytes, const std::vector<uint32_t>& columns, bool of_rows) {
  const TensorView& view = bytes.view;
  const auto width = static_cast<uint64_t>(of_rows ? view.shape.front() : view.shape.back());
  if (!is_contiguous(view) || std::ranges::any_of(columns, [&](uint32_t column) { return column >= width; }))
    return Error{.code = ErrorCode::kUnsupported, .message = "the columns of a strided tensor cannot be taken"};
  // A row is taken whole, as though the tensor had no other axis.
  const uint64_t rows = of_rows ? 1 : element_count(view) / width;
  const size_t size = byte_count(view) / (rows * width);
  std::vector<std::byte> taken(rows * columns.size() * size);
  std::byte* to = taken.data();
  for (uint64_t row = 0; row < rows; ++row)
    for (const uint32_t column : columns) {
      std::memcpy(to, static_cast<const std::byte*>(view.data) + (row * width + column) * size, size);
      to += size;
    }
  std::vector<int64_t> shape(view.shape.begin(), view.shape.end());
  (of_rows ? shape.front() : shape.back()) = static_cast<int64_t>(columns.size());
  bytes.decoded = std::move(taken);
  bytes.shape = std::move(shape);
  bytes.view.data = bytes.decoded.data();
  bytes.view.shape = bytes.shape;
  bytes.view.strides = {};
  return {};
}

// Makes the value that the other side has as one of what this side has as two.
Status combine_with(const Side& side, const CombinedValue& combined_value, SideBytes& bytes) {
  if (combined_value.other == kNoTensor) {
    if (!can_combine(bytes.view.dtype, Combine::kProduct))
      return Error{.code = ErrorCode::kUnsupported, .message = "values of this dtype cannot be scaled"};
    bytes = scaled(bytes, combined_value.factor);
    return {};
  }
  std::vector<SideBytes> parts;
  parts.push_back(std::move(bytes));
  TTAP_ASSIGN(SideBytes other, side.read(combined_value.other));
  const Combine how = combined_value.is_product ? Combine::kProduct : Combine::kSum;
  if (other.view.dtype != parts.front().view.dtype || !can_combine(other.view.dtype, how) ||
      !std::ranges::equal(other.view.shape, parts.front().view.shape))
    return Error{.code = ErrorCode::kUnsupported,
                 .message = "two tensors of other dtypes or shapes cannot be combined"};
  parts.push_back(std::move(other));
  std::vector<int64_t> shape(parts.front().view.shape.begin(), parts.front().view.shape.end());
  bytes = combined(parts, std::move(shape), how);
  return {};
}

// The element of a tensor that became this one where only some of its columns, or rows, were compared.
uint64_t element_in_whole(const TensorRecord& record, const Match& match, uint64_t element) {
  const auto count = match.columns != nullptr ? match.columns->size() : 0;
  if (count == 0) return element;
  const auto width = static_cast<uint64_t>(match.of_rows ? record.shape.front() : record.shape.back());
  if (width == count) return element;
  uint64_t inner = 1;
  for (size_t axis = 1; match.of_rows && axis < record.shape.size(); ++axis)
    inner *= static_cast<uint64_t>(record.shape[axis]);
  const uint64_t place = element / inner;
  return (place / count * width + (*match.columns)[place % count]) * inner + element % inner;
}

void name_ranks(const PairContext& context, TensorDiff& tensor) {
  if (tensor.measures == nullptr || !tensor.measures->worst || !differs(tensor)) return;
  const uint64_t worst = tensor.measures->worst->element;
  for (const auto& [side, index] : {std::pair(&context.a, tensor.match.a), std::pair(&context.b, tensor.match.b)})
    for (const uint32_t rank : side->ranks_of(index, element_in_whole(side->tensor(index), tensor.match, worst)))
      if (std::ranges::find(tensor.ranks, rank) == tensor.ranks.end()) tensor.ranks.push_back(rank);
}

void compare_values(const PairContext& context, TensorDiff& tensor, unsigned threads) {
  const TensorRecord a = context.a.tensor(tensor.match.a), b = context.b.tensor(tensor.match.b);
  const auto views = read_pair(context.a, context.b, tensor.match);
  if (!views.ok()) {
    // What is damaged or cannot be read may still be known to differ.
    compare_fingerprints(context.tolerances, a, b, context.judged_by(tensor.match), tensor);
    tensor.reason = views.error().describe();
    return;
  }
  tensor.evidence = Evidence::kValues;
  if (!views->note.empty()) tensor.note = views->note;
  const bool same_dtype = true_dtype(a) == true_dtype(b);
  if (same_dtype && same_packed_bits(views->a.view, views->b.view)) {
    tensor.verdict = Verdict::kIdentical;
    return;
  }
  const std::optional<Measures> noise = noise_of(context, tensor.match.a, views->a.view);
  Stats stats = tensor.match.columns != nullptr || tensor.match.combined != nullptr ? fingerprint(views->a.view).stats
                                                                                    : stats_of(a, views->a.view);
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
      const Stats stats = stats_of(record, a);
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
  TTAP_ASSIGN(views.a, a.read(match.a));
  TTAP_ASSIGN(views.b, rank_b != nullptr ? b.read_replica(match.b, *rank_b) : b.read(match.b));
  if (match.combined != nullptr) {
    TTAP_TRY(combine_with(match.combined->of_a ? a : b, *match.combined, match.combined->of_a ? views.a : views.b));
    const std::string_view side = match.combined->of_a ? "A" : "B";
    views.note = match.combined->other == kNoTensor
                     ? fmt::format("{}'s times {:.6g} is compared", side, match.combined->factor)
                     : fmt::format("{}'s is the {} of two", side, match.combined->is_product ? "product" : "sum");
  }
  if (match.transposed) {
    TTAP_TRY(transpose(views.b));
    views.note = "B's is transposed";
    return views;
  }
  if (match.columns != nullptr) {
    const auto size_of_axis = [&](const SideBytes& bytes) {
      return match.of_rows ? bytes.view.shape.front() : bytes.view.shape.back();
    };
    const bool wide_a = size_of_axis(views.a) > size_of_axis(views.b);
    TTAP_TRY(take_columns(wide_a ? views.a : views.b, *match.columns, match.of_rows));
    views.note = fmt::format("{} of the {} of {} are compared", match.columns->size(),
                             match.of_rows ? "rows" : "columns", wide_a ? "A" : "B");
    // The rows may have other axes.
    if (wide_a && element_count(views.a.view) == element_count(views.b.view)) {
      views.a.shape.assign(views.b.view.shape.begin(), views.b.view.shape.end());
      views.a.view.shape = views.a.shape;
    }
    if (!std::ranges::equal(views.a.view.shape, views.b.view.shape)) {
      views.b.shape.assign(views.a.view.shape.begin(), views.a.view.shape.end());
      views.b.view.shape = views.b.shape;
    }
    return views;
  }
  const std::span<const int64_t> wanted = views.a.view.shape, given = views.b.view.shape;
  if (std::ranges::equal(wanted, given)) return views;
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
  if ((match.columns != nullptr || match.transposed || match.combined != nullptr) && a.has_bytes && b.has_bytes) {
    compare_values(context, tensor, threads);
    compare_replicas(context, tensor, threads);
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
