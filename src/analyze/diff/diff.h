#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyze/check/losses.h"
#include "analyze/collectives/collective_call.h"
#include "analyze/compare/detail.h"
#include "analyze/diff/blame/quant_layers.h"
#include "analyze/diff/result/verdict.h"
#include "analyze/diff/sides/settings.h"
#include "analyze/diff/sides/side.h"

// What a comparison found, in full; <ttap/diff.h> shows the part that other programs can rely on.
namespace ttap {

// A run as a whole, for the reader who asks what was compared.
struct ComparedRun {
  std::string path;
  uint32_t ranks = 0;
  uint32_t number = 1, runs = 1;     // which of the runs in its directory
  Losses lost = {};                  // of the passes compared: nothing is known of these
  std::string metadata_json = "{}";  // rank.json of the first rank compared
  std::string coverage_json = "{}";  // its coverage.json
};

// Whether an op made other bits, and by the statistics nothing worse.
inline bool is_rounding(const TensorDiff& tensor) {
  return tensor.verdict == Verdict::kInconclusive && tensor.like_rounding && tensor.match.by == MatchedBy::kOp;
}

struct PassDiff {
  std::shared_ptr<const Side> a;
  std::shared_ptr<const Side> b;
  std::vector<TensorDiff> tensors = {};  // in the order of align()
  std::vector<SettingDiff> settings = {};
  std::vector<Match> guesses = {};  // unmatch_guesses()
  std::vector<Match> dropped = {};  // tensors of one side that a rule of the map leaves out
  // Of A; not set where several ranks were put together.
  std::optional<uint32_t> rank = {};
  CollectiveCalls collectives = {};
  QuantizedWeights quantized = {};
};

// What was compared where all passes were put together token by token.
struct ComparedTokens {
  uint32_t requests = 0;
  uint64_t tokens = 0;
  uint64_t only_a = 0, only_b = 0;  // of these requests, computed by one side only
  uint64_t gaps = 0;                // of those, tokens between others that this side did compute: no cache explains it
  uint32_t passes_a = 0, passes_b = 0;
  uint64_t left_out_a = 0, left_out_b = 0;  // tensors that do not have a row for each token
};

// Which tensor of which pass.
struct DiffPlace {
  uint32_t pass = 0;
  uint32_t tensor = 0;
  auto operator<=>(const DiffPlace&) const = default;
};

struct DiffReport {
  ComparedRun a, b;
  std::vector<PassDiff> passes = {};
  std::optional<ComparedTokens> tokens = {};
  std::vector<std::string> only_a = {};  // passes without a counterpart, as Side::place() says
  std::vector<std::string> only_b = {};
  std::array<uint64_t, kVerdicts> counts = {};
  uint64_t not_compared = 0;               // pairs of which nothing to compare was kept, or could be read
  Verdict verdict = Verdict::kIdentical;   // identical, within tolerance, diverged or inconclusive
  std::optional<DiffPlace> earliest = {};  // the first tensor that differs, input or output
  std::vector<DiffPlace> introduced = {};  // in execution order
  // The first that is out of tolerance and that no recorded call made: an argument of an op, or a parameter.
  std::optional<DiffPlace> came_in = {};
  // The first value that has other bits, whatever the verdict.
  std::optional<DiffPlace> first_unequal = {};
  std::optional<DiffPlace> flipped = {};  // the first choice that went the other way at a near tie
  uint64_t by_statistics = 0;             // within tolerance as far as statistics can tell
  uint64_t trivial_a = 0, trivial_b = 0;  // missing and extra ones that do not matter: Match::trivial
  uint64_t parts_a = 0, parts_b = 0;      // of quantized tensors, which are compared as a whole
  uint64_t setup_a = 0, setup_b = 0;      // ops that ran before the first forward, and were not compared
  uint64_t decoded = 0;                   // tensors whose values were decoded on one side or both
  std::vector<std::pair<DiffPlace, PairDetail>> details = {};  // add_details()
  uint64_t details_left_out = 0;
  std::vector<std::string> warnings = {};

  // Whether a near tie that flipped explains all that diverged, and nothing before it was made different.
  bool follows_from_flip() const {
    const auto after = [&](const DiffPlace& place) { return *flipped < place; };
    return flipped && earliest && verdict == Verdict::kInconclusive &&
           (introduced.empty() || after(introduced.front())) && (!came_in || after(*came_in));
  }
  uint64_t count(Verdict v) const { return counts[static_cast<size_t>(v)]; }
  // Whether both sides have more tensors without a counterpart than with one: that these agree says little of the rest.
  // Token by token, where two programs run one model, it is enough that the reference has.
  bool is_mostly_unmatched() const {
    const uint64_t matched = count(Verdict::kIdentical) + count(Verdict::kWithin) + count(Verdict::kFlipped);
    const uint64_t missing = count(Verdict::kMissing) - trivial_a, extra = count(Verdict::kExtra) - trivial_b;
    return matched < (tokens ? missing : std::min(missing, extra));
  }
  const TensorDiff& at(DiffPlace place) const { return passes[place.pass].tensors[place.tensor]; }
  // The first pass that has the weights of a side that is quantized; null when there is none.
  const PassDiff* quantized() const;
  // Where these explain what differs, because nothing else was introduced: the weight that explains most of it.
  std::optional<DiffPlace> quantized_layer() const;
  // The one to look at: the first that was introduced, else the earliest. An op whose bits differ as rounding makes
  // them comes after those that made more of it, and what an op was given from outside before both. What differs in a
  // later step may come from an earlier one, by a cache or the tokens that were drawn.
  std::optional<DiffPlace> first() const {
    if (const auto layer = quantized_layer()) return layer;
    if (follows_from_flip()) return flipped;
    const std::vector<DiffPlace> made = of_first_step(introduced);
    if (came_in && !is_of_later_step(*came_in) && (made.empty() || *came_in < made.front())) return came_in;
    // What is certain comes before what only stands out.
    const bool in_doubt = !made.empty() && at(made.front()).stands_out;
    for (const DiffPlace place : made)
      if (in_doubt && at(place).verdict == Verdict::kDiverged) return place;
    for (const DiffPlace place : made)
      if (!is_rounding(at(place))) return place;
    return made.empty() ? on_first_rank(earliest) : std::optional(made.front());
  }

 private:
  // Whether something is certain to differ in a pass of a lower number.
  bool is_of_later_step(DiffPlace place) const {
    const auto step = [&](DiffPlace of) { return passes[of.pass].a->info().number; };
    return earliest && step(place) > step(*earliest) &&
           (at(*earliest).verdict == Verdict::kDiverged || at(*earliest).verdict == Verdict::kShapeMismatch);
  }
  std::vector<DiffPlace> of_first_step(std::vector<DiffPlace> places) const {
    std::erase_if(places, [&](DiffPlace place) { return is_of_later_step(place); });
    return places;
  }

  // What a collective brought from another rank is to be looked at there.
  std::optional<DiffPlace> on_first_rank(std::optional<DiffPlace> place) const {
    for (size_t hops = 0; hops < passes.size() && place && at(*place).source_pass != kNoTensor; ++hops)
      place = DiffPlace{at(*place).source_pass, at(*place).source};
    return place;
  }
};

// `a` is the reference. Each is a run, a rank, a pass, or a single file of any format that can be read.
TTAP_API Result<DiffReport> diff(const std::string& a, const std::string& b, const DiffOptions& options = {});

// A closer look at `count` of the tensors that were compared by their values: those that introduced an error first,
// then by relative error. `threads` and `progress` as for diff(), the latter in tensors.
TTAP_API void add_details(DiffReport& report, size_t count, unsigned threads = 0,
                          const std::function<void(uint64_t, uint64_t)>& progress = {});

// The record a tensor is known by: A's, or B's when only B has it.
TensorRecord record_of(const PassDiff& pass, const TensorDiff& tensor);
std::string key_of(const PassDiff& pass, const TensorDiff& tensor);

}  // namespace ttap
