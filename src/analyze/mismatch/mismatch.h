#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyze/diff/diff.h"
#include "ttap/api.h"

// How much the log-probabilities of a rollout differ from the trainer's, and why. The rollout engine draws the
// tokens, the trainer says how likely they were; where the two disagree, a policy gradient is of another policy.
namespace ttap {

struct MismatchOptions {
  std::string rank = {};                                 // "0", "0:1": the rollout's 0 with the trainer's 1
  std::string rollout_logits = {}, trainer_logits = {};  // keys; empty: the last result as wide as the vocabulary
  double ratio = 1.2;                                    // of probabilities; tokens beyond it are counted
  size_t worst = 10;                                     // tokens to list
  bool cause = true;                                     // compare the runs, too
  unsigned threads = 0;                                  // 0: one per core
  std::function<void(uint64_t, uint64_t)> progress = {};
};

struct TokenMismatch {
  uint32_t request = 0;  // of MismatchReport::requests
  int64_t position = 0;
  int64_t token = 0;
  double rollout = 0, trainer = 0;  // log-probabilities

  double log_ratio() const { return trainer - rollout; }
};

// Over the tokens whose log-probabilities are finite. r is log p of the trainer - log p of the rollout.
struct MismatchMeasures {
  uint64_t nonfinite = 0;                            // tokens that are not among them
  double mean_abs_logprob = 0, max_abs_logprob = 0;  // |r|
  double mean_abs_probability = 0, max_abs_probability = 0, std_abs_probability = 0;
  double pearson = 0;             // of the probabilities
  double k1 = 0, k3 = 0;          // estimates of KL(rollout || trainer): mean of -r, and of exp(r) - 1 - r
  std::optional<double> kl = {};  // exact, over the vocabulary, where both runs have logits
  uint64_t beyond = 0;            // tokens with exp(|r|) beyond the ratio
  double rollout_perplexity = 0, trainer_perplexity = 0;
};

// Where log-probabilities come from: the logits with this key, or empty as they were recorded.
struct LogprobSource {
  std::string logits = {};
  DType dtype = DType::kF32;
};

// Log-probabilities that logits explain only at another temperature.
struct OtherTemperature {
  bool of_trainer = false;  // whose log-probabilities
  bool own_logits = false;  // the same run's logits, or the other's
  double temperature = 1;
};

// Results that the two runs computed in different dtypes.
struct OtherDtypes {
  std::string key = {};  // of the first, as the trainer calls it
  DType rollout = DType::kF32, trainer = DType::kF32;
  uint64_t count = 0, of = 0;
};

enum class MismatchLevel : uint8_t { kNormal, kNoticeable, kFaulty };
TTAP_API std::string_view to_string(MismatchLevel level);

// Of the mean difference of probabilities: what people who train with rollout engines call normal, and faulty.
inline constexpr double kNormalProbabilities = 0.005, kFaultyProbabilities = 0.01;

struct MismatchReport {
  std::string rollout, trainer;  // paths
  double ratio = 1.2;
  std::vector<std::string> requests = {};  // as the rollout calls them
  std::vector<TokenMismatch> tokens = {};
  MismatchMeasures measures = {};
  LogprobSource from_rollout = {}, from_trainer = {};
  std::vector<uint32_t> worst = {};  // of `tokens`, the largest |r| first
  std::vector<OtherTemperature> temperatures = {};
  // The trainer as A against the rollout as B, for the requests of the worst tokens up to these; null where the runs
  // could not be compared, and why.
  std::unique_ptr<DiffReport> diff = {};
  std::string not_compared = {};
  std::optional<OtherDtypes> dtypes = {};
  std::vector<std::string> notes = {};

  MismatchLevel level() const;
};

TTAP_API Result<MismatchReport> find_mismatch(const std::string& rollout, const std::string& trainer,
                                              const MismatchOptions& options = {});

}  // namespace ttap
