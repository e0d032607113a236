#include "analyze/check/quant_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <thread>

#include "analyze/check/quant_groups.h"
#include "analyze/check/quant_inference.h"
#include "analyze/values/in_order.h"
#include "analyze/values/real_values.h"

namespace ttap {
namespace {

// Saturation that costs nothing is no harm: scales that are powers of two saturate by design.
QuantHarm harm_of(const QuantRecipe& recipe, const QuantStats& stats, const std::optional<double>& least_sqnr_db) {
  const bool low = stats.sqnr_db < least_sqnr_db.value_or(recipe.least_sqnr_db());
  const double overflow = stats.overflow_percent() - recipe.usual_overflow;
  if (overflow >= kHarmfulPoints || (low && overflow >= kNoticeablePoints)) return QuantHarm::kOverflow;
  if (stats.underflow_percent() >= recipe.usual_underflow + kHarmfulPoints) return QuantHarm::kUnderflow;
  return low ? QuantHarm::kError : QuantHarm::kNone;
}

class Checking {
 public:
  Checking(const Pass& pass, std::span<const QuantRecipe> recipes, const QuantCheckOptions& options)
      : pass_(pass), recipes_(recipes), options_(options) {
    for (const QuantRecipe& recipe : recipes) formats_.push_back(recipe.format);
  }

  QuantCheckReport run() {
    choose();
    const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
    const size_t threads = options_.threads == 0 ? cores : std::min(options_.threads, 4 * cores);
    std::vector<Worker> workers(std::clamp<size_t>(threads, 1, std::max<size_t>(jobs_.size(), 1)));
    work_in_order(
        jobs_.size(), workers, [&](Worker& worker, uint64_t item) { work(jobs_[item], worker); },
        [&](Worker& worker, uint64_t item) { take(jobs_[item], worker); });
    return std::move(report_);
  }

 private:
  struct Job {
    size_t tensor = 0;
    std::optional<size_t> same = {};           // an earlier one with equal bytes
    std::optional<QuantTwin> twin = {};        // of a quantized tensor
    std::optional<QuantRecipe> inferred = {};  // of one that was decoded before it was recorded
  };
  struct Worker {
    std::optional<Error> error = {};
    std::vector<QuantOutcome> outcomes = {};
  };

  void choose() {
    const std::vector<bool> parts = parts_of_groups(pass_);
    for (size_t i = 0; i < pass_.tensor_count(); ++i) {
      const TensorRecord record = pass_.tensor(i);
      if (options_.scan.wanted && !options_.scan.wanted(record)) {
        ++report_.unwanted;
      } else if (!parts.empty() && parts[i]) {
        ++report_.parts;
      } else if (!record.group.empty()) {
        if (choose_group(i)) continue;
      } else if (!is_real(record.dtype) || (record.true_dtype && !is_real(*record.true_dtype)) ||
                 record.byte_count == 0) {
        ++report_.not_real;
      } else if (!recipes_.empty()) {
        jobs_.push_back({.tensor = i, .same = earlier_like(i)});
        continue;
      } else if (parts.empty() && choose_decoded(i)) {
        continue;
      } else {
        ++report_.plain;
      }
      if (options_.scan.progress) options_.scan.progress(record);
    }
  }

  // The first tensor before it with the same bytes and shape.
  std::optional<size_t> earlier_like(size_t i) {
    const TensorRecord record = pass_.tensor(i);
    if (!record.has_fingerprint) return std::nullopt;
    const Hash128& hash = record.fingerprint.hash;
    const size_t earlier = first_.try_emplace({hash.high, hash.low}, i).first->second;
    const TensorRecord other = pass_.tensor(earlier);
    const bool alike = earlier != i && other.dtype == record.dtype && std::ranges::equal(other.shape, record.shape);
    return alike && other.has_bytes ? std::optional(earlier) : std::nullopt;
  }

  bool choose_group(size_t i) {
    const TensorRecord record = pass_.tensor(i);
    const auto description = group_description_from_json(record.group);
    if (!description.ok()) {
      report_.unjudged.push_back({i, description.error()});
      return false;
    }
    if (description->format.rotated) {
      report_.unjudged.push_back(
          {i,
           {.code = ErrorCode::kNotRecorded,
            .message = fmt::format("'{}' was rotated before it was quantized: it is not what its twin is",
                                   to_string(record.key()))}});
      return false;
    }
    const auto twin = find_quant_twin(pass_, i, options_.against);
    if (!twin) {
      report_.without_twin.push_back(i);
      return false;
    }
    // Here, because it is made once for all tensors of a format and not from several threads.
    const std::string text(record.group);
    if (!used_.contains(text)) {
      const auto usual = quant_recipe(description->format);
      constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
      used_[text] = usual.ok() ? *usual : QuantRecipe{description->format, kUnknown, kUnknown, kUnknown};
    }
    jobs_.push_back({.tensor = i, .twin = twin});
    return true;
  }

  bool choose_decoded(size_t i) {
    const TensorRecord record = pass_.tensor(i);
    const auto twin = options_.against == nullptr ? std::nullopt : options_.against->find(record.key());
    if (!twin || record.role != "param" || record.shape.size() < 2) return false;
    const TensorRecord other = options_.against->tensor(*twin);
    if (!is_real(other.dtype) || !std::ranges::equal(other.shape, record.shape)) return false;
    if (record.has_fingerprint && other.has_fingerprint && record.fingerprint.hash == other.fingerprint.hash)
      return false;
    const auto before = options_.against->read(*twin), after = pass_.read(i);
    if (!before.ok() || !after.ok()) return false;
    auto recipe = inference_.format_of(*before, *after);
    if (!recipe) return false;
    jobs_.push_back({.tensor = i, .twin = QuantTwin{options_.against, *twin}, .inferred = std::move(recipe)});
    return true;
  }

  void work(const Job& job, Worker& worker) const {
    worker = {};
    if (job.same) return;
    auto outcomes = outcomes_of(job);
    if (outcomes.ok())
      worker.outcomes = std::move(outcomes).value();
    else
      worker.error = std::move(outcomes).error();
  }

  Result<std::vector<QuantOutcome>> outcomes_of(const Job& job) const {
    if (!job.twin) return would_be(pass_, job.tensor);
    std::vector<QuantOutcome> outcomes;
    if (job.inferred) {
      TTAP_ASSIGN(const TensorView before, job.twin->pass->read(job.twin->tensor));
      TTAP_ASSIGN(const TensorView after, pass_.read(job.tensor));
      outcomes.push_back(judged(*job.inferred, quant_statistics_of_values(before, after), true));
      return outcomes;
    }
    TTAP_ASSIGN(QuantStats stats, as_it_was(job));
    outcomes.push_back(judged(used_.at(std::string(pass_.tensor(job.tensor).group)), std::move(stats), true));
    // A twin in the pass itself is a tensor like any other.
    if (job.twin->pass == &pass_ || recipes_.empty()) return outcomes;
    TTAP_ASSIGN(std::vector<QuantOutcome> others, would_be(*job.twin->pass, job.twin->tensor));
    std::ranges::move(others, std::back_inserter(outcomes));
    return outcomes;
  }

  Result<QuantStats> as_it_was(const Job& job) const {
    TTAP_ASSIGN(const TensorView view, job.twin->pass->read(job.twin->tensor));
    const RealValues values(view);
    TTAP_ASSIGN(const GroupParts parts, group_of(pass_, job.tensor));
    TTAP_ASSIGN(const QuantGroup group, read_group(pass_, parts));
    return quant_statistics(values.view(), group);
  }

  Result<std::vector<QuantOutcome>> would_be(const Pass& pass, size_t tensor) const {
    TTAP_ASSIGN(const TensorView view, pass.read(tensor));
    const RealValues values(view);
    QuantStatsOptions options;
    const TensorRecord record = pass.tensor(tensor);
    // The largest magnitude need not be looked for where it was recorded, which is that of the finite values.
    const Stats& known = record.fingerprint.stats;
    if (record.has_fingerprint && view.dtype != DType::kF64 && known.finite() == known.count)
      options.encode.amax = static_cast<float>(known.max_abs);
    TTAP_ASSIGN(std::vector<QuantStats> stats, quant_statistics(values.view(), formats_, options));
    std::vector<QuantOutcome> outcomes;
    for (size_t i = 0; i < stats.size(); ++i) outcomes.push_back(judged(recipes_[i], std::move(stats[i]), false));
    return outcomes;
  }

  QuantOutcome judged(const QuantRecipe& recipe, QuantStats stats, bool in_use) const {
    return judge_quantized(recipe, std::move(stats), in_use, options_.least_sqnr_db);
  }

  void take(const Job& job, Worker& worker) {
    if (options_.scan.progress) options_.scan.progress(pass_.tensor(job.tensor));
    if (job.same) {
      const auto found = std::ranges::lower_bound(report_.found, *job.same, {}, &QuantFinding::tensor);
      if (found != report_.found.end() && found->tensor == *job.same) {
        std::vector<QuantOutcome> outcomes = found->outcomes;
        return void(report_.found.push_back({job.tensor, std::move(outcomes)}));
      }
      work({.tensor = job.tensor}, worker);
    }
    if (worker.error) return void(report_.unjudged.push_back({job.tensor, std::move(*worker.error)}));
    report_.found.push_back({job.tensor, std::move(worker.outcomes)});
  }

  const Pass& pass_;
  std::span<const QuantRecipe> recipes_;
  const QuantCheckOptions& options_;
  std::vector<QuantFormat> formats_;
  std::vector<Job> jobs_;
  std::map<std::pair<uint64_t, uint64_t>, size_t> first_;  // by hash
  std::map<std::string, QuantRecipe> used_;                // by description
  QuantInference inference_;
  QuantCheckReport report_;
};

}  // namespace

QuantOutcome judge_quantized(const QuantRecipe& recipe, QuantStats stats, bool in_use,
                             const std::optional<double>& least_sqnr_db) {
  stats.codes = {};
  // Without error is not what has nothing left to err.
  if (std::isinf(stats.sqnr_db) && (stats.overflow > 0 || stats.not_finite == stats.count))
    stats.sqnr_db = -std::numeric_limits<double>::infinity();
  const QuantHarm harm = harm_of(recipe, stats, least_sqnr_db);
  return {.recipe = recipe, .in_use = in_use, .stats = std::move(stats), .harm = harm};
}

QuantCheckReport check_quant(const Pass& pass, std::span<const QuantRecipe> recipes, const QuantCheckOptions& options) {
  return Checking(pass, recipes, options).run();
}

}  // namespace ttap
