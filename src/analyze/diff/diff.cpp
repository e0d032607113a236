#include "analyze/diff/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "analyze/check/warm_up.h"
#include "analyze/diff/align.h"
#include "analyze/diff/blame/cause.h"
#include "analyze/diff/blame/combined_causes.h"
#include "analyze/diff/blame/ends.h"
#include "analyze/diff/blame/false_matches.h"
#include "analyze/diff/blame/random_draws.h"
#include "analyze/diff/blame/rank_causes.h"
#include "analyze/diff/blame/weights.h"
#include "analyze/diff/judge/compare_pairs.h"
#include "analyze/diff/judge/judge_parts.h"
#include "analyze/diff/judge/precision.h"
#include "analyze/diff/match/ops/gradients.h"
#include "analyze/diff/ranks/shards.h"
#include "analyze/diff/sides/pass_pairs.h"
#include "analyze/diff/sides/setup.h"
#include "analyze/diff/sides/tensor_names.h"
#include "analyze/diff/tokens/by_token.h"
#include "analyze/ops/role_flow.h"
#include "store/files/mapped_file.h"

namespace ttap {
namespace {

ComparedRun describe(const Run& run) {
  ComparedRun compared{.path = run.path.string(), .ranks = static_cast<uint32_t>(run.ranks.size())};
  compared.number = run.number;
  compared.runs = run.runs;
  if (run.ranks.empty()) return compared;
  const std::string metadata = side_file_text(run.ranks.front().path / "rank.json");
  const std::string coverage = side_file_text(run.ranks.front().path / "coverage.json");
  if (!metadata.empty()) compared.metadata_json = metadata;
  if (!coverage.empty()) compared.coverage_json = coverage;
  return compared;
}

// What was read from files for the whole comparison.
struct Rules {
  std::function<bool(std::string_view)> wanted = {};  // empty: every key is
  std::optional<NameMap> map = {};
  std::optional<ShardRules> shards = {};
  std::optional<Tolerances> tolerances = {};
};

Result<Rules> read_rules(const DiffOptions& options) {
  Rules rules;
  rules.wanted = options.wanted;
  if (!options.filter.empty()) {
    TTAP_ASSIGN(Pattern pattern, Pattern::compile(options.filter));
    rules.wanted = [pattern = std::make_shared<Pattern>(std::move(pattern)), besides = options.wanted](
                       std::string_view key) { return pattern->found_in(key) && (!besides || besides(key)); };
  }
  if (!options.map.empty()) {
    TTAP_ASSIGN(rules.map, NameMap::read(options.map));
  }
  if (!options.shards.empty()) {
    TTAP_ASSIGN(rules.shards, ShardRules::read(options.shards));
  }
  TTAP_ASSIGN(rules.tolerances, Tolerances::create(options.tolerance));
  return rules;
}

using Parts = std::vector<std::pair<const Rank*, const PassFile*>>;

// `lost`: gets what the passes lost while they were recorded; may be null.
Result<std::shared_ptr<const Side>> open_side(const Parts& parts, const ShardRules* shards, const Side* reference,
                                              Losses* lost) {
  std::vector<RankPart> ranks;
  for (const auto& [rank, file] : parts) {
    TTAP_ASSIGN(Pass opened, open_found_pass(*file));
    if (lost != nullptr) *lost += losses_of(opened);
    ranks.push_back({make_side(std::move(opened), rank->number, read_model_facts(rank->path)), rank->number,
                     parts.size() > 1 ? side_file_text(rank->path / "placements.json") : std::string()});
  }
  if (ranks.size() == 1) return std::shared_ptr<const Side>(std::move(ranks.front().side));
  return std::shared_ptr<const Side>(join_ranks(std::move(ranks), shards, reference));
}

// For every tensor of A the one of the noise run; empty when there is no such run.
struct Noise {
  std::shared_ptr<const Side> side = {};
  std::vector<uint32_t> partner = {};
};
Result<Noise> open_noise(const DiffOptions& options, const Parts& a, const Side& side_a, const Rules& rules) {
  Noise noise;
  if (options.noise.empty()) return noise;
  TTAP_ASSIGN(const Run run, Run::open(options.noise));
  Parts parts;
  for (const auto& [rank, file] : a) {
    const Rank* same = nullptr;
    for (const Rank& candidate : run.ranks)
      if (same == nullptr && (candidate.number == rank->number || run.ranks.size() == 1)) same = &candidate;
    const PassFile* pass = nullptr;
    if (same != nullptr)
      for (const PassFile& candidate : same->passes)
        if (candidate.number == file->number || same->passes.size() == 1) pass = &candidate;
    if (pass == nullptr) {
      return Error{.code = ErrorCode::kNotFound,
                   .message = fmt::format("the noise run has no pass {} of rank {}", file->number, rank->number),
                   .path = options.noise,
                   .hint = "record the reference twice in the same way"};
    }
    parts.emplace_back(same, pass);
  }
  TTAP_ASSIGN(noise.side, open_side(parts, rules.shards ? &*rules.shards : nullptr, &side_a, nullptr));
  noise.partner.assign(side_a.tensor_count(), kNoTensor);
  for (const Match& match : align(side_a, *noise.side, {.structure = false}))
    if (match.a != kNoTensor) noise.partner[match.a] = match.b;
  return noise;
}

// Tensors that were judged without noise are said, and a noise run that has none at all is a mistake.
Status check_noise(const DiffOptions& options, const PassDiff& pass, const Noise& noise, DiffReport& report) {
  uint64_t judged = 0, without = 0;
  for (const TensorDiff& tensor : pass.tensors) {
    if (tensor.judge == nullptr) continue;
    const uint32_t partner = noise.partner[tensor.match.a];
    ++judged;
    without += partner == kNoTensor || !noise.side->tensor(partner).has_bytes || tensor.evidence != Evidence::kValues;
  }
  if (without == 0) return {};
  if (without == judged)
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "the noise run has nothing to measure noise with",
                 .path = options.noise,
                 .hint = "record the reference a second time in the same way, at level full"};
  report.warnings.push_back(
      fmt::format("--noise: {} of the {} tensors that differ are judged without it: the noise run "
                  "lacks them, or no bytes were kept",
                  without, judged));
  return {};
}

// What was seen of a pass beside its tensors.
struct PassNotes {
  uint64_t parts_a = 0, parts_b = 0;
  Noise noise = {};
};

// Which parameters, gradients and optimizers' states differ, or are only on one side.
void name_tensors(PassDiff& pass) {
  const auto agrees = [](const TensorDiff& tensor) {
    return tensor.verdict == Verdict::kIdentical || tensor.verdict == Verdict::kWithin;
  };
  if (std::ranges::all_of(pass.tensors, agrees)) return;
  const TensorNames of_a(*pass.a), of_b(*pass.b);
  for (TensorDiff& tensor : pass.tensors) {
    if (agrees(tensor)) continue;
    for (const auto& [names, record] : {std::pair(&of_a, tensor.match.a), std::pair(&of_b, tensor.match.b)}) {
      if (!tensor.tensor_name.empty() || record == kNoTensor) continue;
      tensor.tensor_name = names->name_of(record);
      tensor.updates = names->is_update(record);
    }
  }
}

// Fills in all of `pass` but its sides.
Result<PassNotes> compare_sides(const PassPair& pair, const Rules& rules, const DiffOptions& options,
                                bool is_first_pass, PassDiff& pass) {
  PassNotes notes;
  const SideOps ops_a(*pass.a), ops_b(*pass.b);
  auto matches = align(ops_a, ops_b,
                       {.map = rules.map ? &*rules.map : nullptr,
                        .structure = options.structure && !options.strict,
                        .nearness = !options.strict,
                        .wanted = rules.wanted ? &rules.wanted : nullptr});
  if (rules.map && !rules.map->status().ok()) return rules.map->status().error();
  pass.dropped.clear();
  for (const Match& match : matches) {
    if (match.part) ++(match.a != kNoTensor ? notes.parts_a : notes.parts_b);
    if (match.dropped) pass.dropped.push_back(match);
  }
  std::stable_partition(pass.dropped.begin(), pass.dropped.end(),
                        [](const Match& match) { return match.a != kNoTensor; });
  std::erase_if(matches, [](const Match& match) { return match.part || match.dropped; });
  pass.tensors = std::vector<TensorDiff>(matches.size());
  for (size_t i = 0; i < matches.size(); ++i) pass.tensors[i].match = matches[i];

  TTAP_ASSIGN(notes.noise, open_noise(options, pair.a, *pass.a, rules));
  const std::vector<DType> precision_a = precisions_of(*pass.a), precision_b = precisions_of(*pass.b);
  compare_pairs({*pass.a, *pass.b, *rules.tolerances, notes.noise.side.get(), &notes.noise.partner, &precision_a,
                 &precision_b, !options.strict},
                pass.tensors, options.threads, options.progress);
  judge_by_parts(*pass.a, *pass.b, pass.tensors);
  if (!options.strict) unmatch_false_matches(ops_a, ops_b, pass.tensors);
  pass.guesses = unmatch_guesses(pass.tensors);
  pass.settings = differing_settings(*pass.a, *pass.b, pass.tensors);
  const auto is_identical = [](const TensorDiff& tensor) { return tensor.verdict == Verdict::kIdentical; };
  if (!std::ranges::all_of(pass.tensors, is_identical)) {
    find_causes(*pass.a, *pass.b, pass.settings, {.is_first_pass = is_first_pass, .strict = options.strict},
                pass.tensors);
    inherit_from_second(*pass.a, *pass.b, pass.tensors);
    explain_weights(*pass.a, *pass.b, pass.tensors);
    blame_extra_draws(*pass.a, *pass.b, pass.tensors);
  }
  find_wrong_gradients(ops_a, ops_b, pass.tensors);
  find_ends(ops_a, ops_b, pass.tensors);
  pass.quantized = find_quantized_weights(*pass.a, *pass.b, pass.tensors);
  inherit_from_quantized_weights(*pass.a, pass.quantized, pass.settings, pass.tensors);
  name_tensors(pass);
  return notes;
}

// What the set-up of a side made, and arrived in the forwards different.
std::vector<uint32_t> arrived_different(const PassDiff& pass, const SideWithoutSetup& side, uint32_t Match::*record) {
  std::vector<uint32_t> found;
  for (const TensorDiff& tensor : pass.tensors)
    if (tensor.match.*record != kNoTensor && differs(tensor))
      if (const uint32_t made = side.made_in_setup(tensor.match.*record); made != kNoTensor) found.push_back(made);
  return found;
}

// Without the ops that ran before the first forward, but for those that made what arrived there different. Of a program
// that calls no module all is compared, and with all of the other.
Result<PassNotes> compare_forwards(const PassPair& pair, const Rules& rules, const DiffOptions& options,
                                   DiffReport& report, PassDiff& pass) {
  const bool is_first_pass = report.passes.empty();
  const bool both_have_forwards = calls_modules(*pass.a) && calls_modules(*pass.b);
  if (options.all_ops || !both_have_forwards || !(has_setup(*pass.a) || has_setup(*pass.b)))
    return compare_sides(pair, rules, options, is_first_pass, pass);
  const auto whole_a = pass.a, whole_b = pass.b;
  auto a = std::make_shared<const SideWithoutSetup>(whole_a), b = std::make_shared<const SideWithoutSetup>(whole_b);
  const auto compare = [&] {
    if (a->setup_count() > 0) pass.a = a;
    if (b->setup_count() > 0) pass.b = b;
    return compare_sides(pair, rules, options, is_first_pass, pass);
  };
  TTAP_ASSIGN(PassNotes notes, compare());
  const auto wanted_a = pass.a == a ? arrived_different(pass, *a, &Match::a) : std::vector<uint32_t>();
  const auto wanted_b = pass.b == b ? arrived_different(pass, *b, &Match::b) : std::vector<uint32_t>();
  if (!wanted_a.empty() || !wanted_b.empty()) {
    a = std::make_shared<const SideWithoutSetup>(whole_a, wanted_a);
    b = std::make_shared<const SideWithoutSetup>(whole_b, wanted_b);
    pass.a = whole_a, pass.b = whole_b;
    TTAP_ASSIGN(notes, compare());
  }
  report.setup_a += a->setup_count();
  report.setup_b += b->setup_count();
  return notes;
}

// Two sides, whatever they were put together from.
Status compare_opened(const PassPair& pair, const Rules& rules, const DiffOptions& options, DiffReport& report,
                      PassDiff& pass) {
  TTAP_ASSIGN(const PassNotes notes, compare_forwards(pair, rules, options, report, pass));
  if (const auto* part = dynamic_cast<const SideWithoutSetup*>(pass.a.get()))
    pass.collectives.renumber([&](uint32_t event) { return part->number_of(event); });
  report.parts_a += notes.parts_a;
  report.parts_b += notes.parts_b;
  if (notes.noise.side != nullptr) {
    TTAP_TRY(check_noise(options, pass, notes.noise, report));
  }
  for (const auto& [name, side] : {std::pair("A", pass.a), std::pair("B", pass.b)}) {
    const PassInfo& info = side->info();
    if (info.ending != Ending::kComplete)
      report.warnings.push_back(fmt::format("{}'s {} is {}", name, side->place(), to_string(info.ending)));
    if (info.drops.total() > 0)
      report.warnings.push_back(fmt::format("{}'s {} dropped {} tensors", name, side->place(), info.drops.total()));
  }
  return {};
}

// Nothing where one of them only warms up.
Result<std::optional<PassDiff>> diff_pass(const PassPair& pair, const Rules& rules, const DiffOptions& options,
                                          DiffReport& report) {
  PassDiff pass;
  const ShardRules* shards = rules.shards ? &*rules.shards : nullptr;
  // The side with fewer ranks shows the shapes that the other one's parts should add up to.
  if (pair.a.size() <= pair.b.size()) {
    TTAP_ASSIGN(pass.a, open_side(pair.a, shards, nullptr, &report.a.lost));
    TTAP_ASSIGN(pass.b, open_side(pair.b, shards, pass.a.get(), &report.b.lost));
  } else {
    TTAP_ASSIGN(pass.b, open_side(pair.b, shards, nullptr, &report.b.lost));
    TTAP_ASSIGN(pass.a, open_side(pair.a, shards, pass.b.get(), &report.a.lost));
  }
  if (is_warm_up(*pass.a) || is_warm_up(*pass.b)) return std::optional<PassDiff>();
  if (pair.a.size() == 1 && pair.b.size() == 1) {
    pass.rank = pair.a.front().first->number;
    pass.collectives = CollectiveCalls(*pass.a);
  }
  TTAP_TRY(compare_opened(pair, rules, options, report, pass));
  return std::optional(std::move(pass));
}

// All passes of both runs as one, token by token.
Status diff_tokens(const ByToken& tokens, const Rules& rules, const DiffOptions& options, DiffReport& report) {
  if (!options.noise.empty())
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "--noise cannot be measured token by token",
                 .hint = "--by-pass compares pass by pass"};
  PassDiff pass{.a = tokens.sides.a, .b = tokens.sides.b};
  report.tokens = ComparedTokens{.requests = tokens.pairs.requests,
                                 .tokens = tokens.pairs.a.size(),
                                 .only_a = tokens.pairs.only_a,
                                 .only_b = tokens.pairs.only_b,
                                 .gaps = tokens.pairs.gaps,
                                 .passes_a = tokens.passes_a,
                                 .passes_b = tokens.passes_b,
                                 .left_out_a = tokens.sides.left_out_a,
                                 .left_out_b = tokens.sides.left_out_b};
  report.only_a.clear();
  report.only_b.clear();
  report.warnings = tokens.pairs.notes;
  TTAP_TRY(compare_opened({}, rules, options, report, pass));
  report.passes.push_back(std::move(pass));
  return {};
}

bool is_of_op(const PassDiff& pass, const TensorDiff& tensor) {
  const TensorRecord record = record_of(pass, tensor);
  const Side& side = tensor.match.a != kNoTensor ? *pass.a : *pass.b;
  return record.event < side.event_count() && is_op(side.event(record.event));
}

// An argument of an op that no op made, or a parameter.
bool is_given_from_outside(const PassDiff& pass, const TensorDiff& tensor) {
  const std::string_view role = record_of(pass, tensor).role;
  return is_parameter(role) || (role == "in" && is_of_op(pass, tensor));
}

// Whether the error came from a choice that went the other way at a near tie.
bool comes_from_flip(const DiffReport& report, DiffPlace place) {
  for (size_t steps = 0; steps < report.passes[place.pass].tensors.size() && place.tensor != kNoTensor; ++steps) {
    const TensorDiff& tensor = report.at(place);
    if (tensor.verdict == Verdict::kFlipped) return true;
    place = {tensor.source_pass != kNoTensor ? tensor.source_pass : place.pass, tensor.source};
  }
  return false;
}

// Asks the other ranks what they gave to collectives. Passes of one number, each of another rank, were recorded
// together.
void follow_collectives(std::vector<PassDiff>& passes) {
  for (size_t first = 0; first < passes.size();) {
    std::set<uint32_t> seen;
    std::vector<RankDiff> ranks;
    size_t next = first;
    for (; next < passes.size(); ++next) {
      PassDiff& pass = passes[next];
      if (!pass.rank || pass.a->info().number != passes[first].a->info().number || !seen.insert(*pass.rank).second)
        break;
      ranks.push_back({.rank = *pass.rank,
                       .pass = static_cast<uint32_t>(next),
                       .a = pass.a.get(),
                       .tensors = pass.tensors,
                       .collectives = pass.collectives});
    }
    find_causes_in_other_ranks(std::move(ranks));
    first = std::max(next, first + 1);
  }
}

// What the statistics gave, the least that an error can be, is no error to be told.
void keep_known_measures(std::span<TensorDiff> tensors) {
  for (TensorDiff& tensor : tensors) {
    if (tensor.measures == nullptr || tensor.evidence == Evidence::kValues) continue;
    Measures& m = *tensor.measures;
    m.max_abs = m.mean_abs = m.max_rel = m.cosine = m.sqnr_db = std::nan("");
    m.unequal = 0;
    if (tensor.evidence != Evidence::kSketch) m.rmse = std::nan("");
  }
}

void summarize(DiffReport& report) {
  uint64_t after_flips = 0;  // of those that diverged
  uint64_t unsettled = 0;    // the bits differ, and there are no bytes to tell how far
  uint64_t wrong = 0;
  for (uint32_t p = 0; p < report.passes.size(); ++p) {
    keep_known_measures(report.passes[p].tensors);
    const PassDiff& pass = report.passes[p];
    bool arrived = false;  // from another rank, where it is told how it arose
    for (uint32_t i = 0; i < pass.tensors.size(); ++i) {
      const TensorDiff& tensor = pass.tensors[i];
      arrived = arrived || tensor.source_pass != kNoTensor;
      ++report.counts[static_cast<size_t>(tensor.verdict)];
      wrong += tensor.is_wrong;
      if (tensor.verdict == Verdict::kFlipped && !report.flipped) report.flipped = DiffPlace{p, i};
      after_flips += (tensor.verdict == Verdict::kDiverged || tensor.verdict == Verdict::kShapeMismatch) &&
                     comes_from_flip(report, {p, i});
      unsettled += tensor.verdict == Verdict::kInconclusive && differs(tensor);
      if (differs(tensor) && !report.earliest) report.earliest = DiffPlace{p, i};
      report.by_statistics += tensor.verdict == Verdict::kWithin && tensor.evidence == Evidence::kStatistics;
      const auto quantized = [](const Side& side, uint32_t index) {
        return index != kNoTensor && !side.tensor(index).group.empty();
      };
      report.decoded += tensor.evidence == Evidence::kValues &&
                        (quantized(*pass.a, tensor.match.a) || quantized(*pass.b, tensor.match.b));
      if (tensor.match.trivial) ++(tensor.match.a != kNoTensor ? report.trivial_a : report.trivial_b);
      if (!report.first_unequal && (differs(tensor) || tensor.verdict == Verdict::kWithin))
        report.first_unequal = DiffPlace{p, i};
      if (tensor.cause == Cause::kIntroduced) report.introduced.push_back({p, i});
      if (!report.came_in && !arrived && differs(tensor) && tensor.cause == Cause::kUnknown &&
          is_given_from_outside(pass, tensor))
        report.came_in = DiffPlace{p, i};
    }
  }
  // One side goes on where the other ends.
  if (!report.earliest && !report.introduced.empty()) report.earliest = report.introduced.front();
  report.not_compared = report.count(Verdict::kInconclusive) - unsettled;
  if (report.count(Verdict::kDiverged) + report.count(Verdict::kShapeMismatch) + wrong > after_flips) {
    report.verdict = Verdict::kDiverged;
  } else if (unsettled > 0 || report.earliest ||
             std::ranges::any_of(report.passes, [](const PassDiff& pass) { return !pass.guesses.empty(); }) ||
             report.count(Verdict::kIdentical) + report.count(Verdict::kWithin) == 0 || report.is_mostly_unmatched()) {
    report.verdict = Verdict::kInconclusive;
  } else if (report.count(Verdict::kWithin) + report.count(Verdict::kFlipped) > 0) {
    report.verdict = Verdict::kWithin;
  }
}

}  // namespace

Result<DiffReport> diff(const std::string& path_a, const std::string& path_b, const DiffOptions& options) {
  TTAP_ASSIGN(const Rules rules, read_rules(options));
  TTAP_ASSIGN(const Run a, Run::open(path_a));
  TTAP_ASSIGN(const Run b, Run::open(path_b));
  TTAP_ASSIGN(PassPairing pairing, pair_passes(a, b, options.passes, options.ranks, !options.shards.empty()));
  DiffReport report{.a = describe(a), .b = describe(b)};
  std::optional<ByToken> tokens;
  if (options.passes.empty()) {
    const ShardRules* shards = rules.shards ? &*rules.shards : nullptr;
    TTAP_ASSIGN(tokens, open_by_token(pairing, shards, options, report.a.lost, report.b.lost));
  }
  report.only_a = std::move(pairing.only_a);
  report.only_b = std::move(pairing.only_b);
  report.warnings = std::move(pairing.warnings);
  if (tokens) {
    TTAP_TRY(diff_tokens(*tokens, rules, options, report));
  } else {
    for (const PassPair& pair : pairing.pairs) {
      TTAP_ASSIGN(std::optional<PassDiff> pass, diff_pass(pair, rules, options, report));
      if (pass) report.passes.push_back(std::move(*pass));
    }
    if (const size_t warm_ups = pairing.pairs.size() - report.passes.size(); warm_ups > 0)
      report.warnings.push_back(
          fmt::format("{} of {} passes only warm up, and were not compared", warm_ups, pairing.pairs.size()));
  }
  follow_collectives(report.passes);
  if (rules.wanted && std::ranges::all_of(report.passes, [](const PassDiff& pass) { return pass.tensors.empty(); }))
    return Error{.code = ErrorCode::kNotFound,
                 .message = options.filter.empty()
                                ? "the filter selects no key of either run"
                                : fmt::format("no key of either run matches --filter '{}'", options.filter),
                 .hint = "`ttap ls RUN` lists the keys"};
  summarize(report);
  for (auto [side, name, parts] :
       {std::tuple(&report.a, "A", &PassPair::a), std::tuple(&report.b, "B", &PassPair::b)}) {
    // Which numbers the lost passes had is not known.
    std::set<const Rank*> ranks;
    for (const PassPair& pair : pairing.pairs)
      for (const auto& [rank, file] : pair.*parts)
        if (options.passes.empty() && ranks.insert(rank).second) side->lost += lost_passes_of(*rank);
    if (side->runs > 1)
      report.warnings.push_back(
          fmt::format("{} is run {} of {} in its directory: {}", name, side->number, side->runs, side->path));
  }
  // Agreement of what is left says nothing of the rest.
  if ((report.a.lost.any() || report.b.lost.any() || (report.tokens && report.tokens->gaps > 0)) &&
      (report.verdict == Verdict::kIdentical || report.verdict == Verdict::kWithin))
    report.verdict = Verdict::kInconclusive;
  const auto warn_unused = [&](std::string_view option, const std::vector<std::string>& unused) {
    for (const std::string& rule : unused)
      report.warnings.push_back(fmt::format("{}: '{}' was not needed for any key", option, rule));
  };
  warn_unused("--tol", rules.tolerances->unused());
  if (rules.map) {
    warn_unused("--map", rules.map->unused());
    for (const std::string& problem : rules.map->problems()) report.warnings.push_back("--map: " + problem);
  }
  if (rules.shards) warn_unused("--shards", rules.shards->unused());
  return report;
}

const PassDiff* DiffReport::quantized() const {
  const auto found = std::ranges::find_if(passes, [](const PassDiff& pass) { return pass.quantized.any(); });
  return found != passes.end() ? &*found : nullptr;
}

std::optional<DiffPlace> DiffReport::quantized_layer() const {
  const PassDiff* pass = quantized();
  if (pass == nullptr || !introduced.empty() || !earliest) return std::nullopt;
  return DiffPlace{static_cast<uint32_t>(pass - passes.data()), pass->quantized.layers.front().weight};
}

TensorRecord record_of(const PassDiff& pass, const TensorDiff& tensor) {
  return tensor.match.a != kNoTensor ? pass.a->tensor(tensor.match.a) : pass.b->tensor(tensor.match.b);
}

std::string key_of(const PassDiff& pass, const TensorDiff& tensor) { return to_string(record_of(pass, tensor).key()); }

}  // namespace ttap
