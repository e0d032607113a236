#include "analyze/check/nonfinite.h"

#include <fmt/format.h>

#include "analyze/check/unread.h"
#include "analyze/ops/role_flow.h"
#include "analyze/values/extremes.h"
#include "ttap/group.h"

namespace ttap {
namespace {

// What goes into a call; in a backward call the gradients of its outputs do.
bool same_call(const TensorRecord& a, const TensorRecord& b) {
  if (a.event != kNoEvent || b.event != kNoEvent) return a.event == b.event;
  return a.name == b.name && a.call == b.call;
}

bool is_clean(const Stats& stats) { return stats.nan == 0 && stats.pos_inf == 0 && stats.neg_inf == 0; }

// Larger formats end where nothing gets by itself, smaller ones are scaled to their end.
constexpr double kF16Largest = 65504;
constexpr double kPutThere = 0.999;  // times the largest: torch.finfo(torch.float16).min, and a score added to it

std::optional<Suspicion> suspicion_of(const TensorRecord& record, const Stats& stats) {
  if (record.dtype == DType::kF16 && stats.max_abs > kF16Largest / 2 && stats.max_abs < kF16Largest * kPutThere)
    return Suspicion::kNearOverflow;
  const uint64_t nonzero = stats.finite() - stats.zeros;
  if (stats.subnormals > 0 && stats.subnormals >= (nonzero + 9) / 10) return Suspicion::kUnderflow;
  return std::nullopt;
}

}  // namespace

Result<Stats> stats_of(const Pass& pass, size_t tensor) {
  const TensorRecord record = pass.tensor(tensor);
  if (record.has_fingerprint) return record.fingerprint.stats;
  if (!record.has_bytes && has_values(pass, tensor)) {
    TTAP_ASSIGN(const Values values, read_values(pass, tensor));
    return fingerprint(values.view).stats;
  }
  if (const std::string why = record.has_bytes ? "" : why_unread(pass, record); !why.empty())
    return Error{.code = ErrorCode::kNotRecorded,
                 .message = fmt::format("'{}' was not read: {}", to_string(record.key()), why),
                 .path = pass.info().path.string()};
  if (!record.has_bytes)
    return Error{.code = ErrorCode::kNotRecorded,
                 .message = fmt::format("'{}' was recorded at level '{}': neither statistics nor bytes were kept",
                                        to_string(record.key()), to_string(record.level)),
                 .path = pass.info().path.string(),
                 .hint = "record it with level fingerprint or full"};
  TTAP_ASSIGN(const TensorView view, pass.read(tensor));
  return fingerprint(view).stats;
}

NonfiniteReport find_nonfinite(const Pass& pass, const ScanOptions& options) {
  NonfiniteReport report;
  for (size_t i = 0; i < pass.tensor_count(); ++i) {
    const TensorRecord record = pass.tensor(i);
    if (options.progress) options.progress(record);
    if (options.wanted && !options.wanted(record)) {
      ++report.unwanted;
      continue;
    }
    if (!can_be_nonfinite(record.dtype)) {
      ++report.judged;
      continue;
    }
    const auto stats = stats_of(pass, i);
    if (!stats.ok() && !record.has_bytes && has_no_value(why_unread(pass, record))) {
      ++report.without_value;
      continue;
    }
    if (!stats.ok()) {
      report.unjudged.push_back({i, stats.error()});
      continue;
    }
    ++report.judged;
    if (const auto suspicion = suspicion_of(record, *stats)) report.suspects.push_back({i, *suspicion, *stats});
    if (!is_clean(*stats)) report.found.push_back({i, stats->count, stats->nan, stats->pos_inf, stats->neg_inf});
  }
  return report;
}

Situation situation_of(const Pass& pass, size_t tensor) {
  Situation situation;
  const TensorRecord record = pass.tensor(tensor);
  if (record.has_bytes)
    if (const auto view = pass.read(tensor); view.ok()) situation.first = first_nonfinite(*view);
  for (size_t i = tensor; i-- > 0 && !situation.before;) {
    const auto known_clean = [&] {
      const auto stats = stats_of(pass, i);
      return stats.ok() && is_clean(*stats);
    };
    if (!can_be_nonfinite(pass.tensor(i).dtype) || known_clean()) situation.before = i;
  }
  if (goes_in(record.role)) return situation;
  for (size_t i = 0; i < tensor; ++i) {
    const TensorRecord other = pass.tensor(i);
    if (!goes_in(other.role) || !same_call(other, record)) continue;
    const auto stats = stats_of(pass, i);
    const bool nonfinite = can_be_nonfinite(other.dtype) && stats.ok() && !is_clean(*stats);
    if (is_parameter(other.role) && !nonfinite) continue;
    situation.inputs.push_back(i);
    if (nonfinite) situation.nonfinite_inputs.push_back(i);
  }
  return situation;
}

}  // namespace ttap
