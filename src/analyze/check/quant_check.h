#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyze/check/nonfinite.h"
#include "ttap/quant.h"
#include "ttap/run.h"

// Which tensors of a pass would suffer in which quantized format.
namespace ttap {

// A recipe and what it usually does: to values that are normally distributed. No format of a few bits is without error,
// so a tensor is held against this rather than against perfection.
struct QuantRecipe {
  QuantFormat format;
  double usual_sqnr_db = 0;
  double usual_underflow = 0;  // percent; all NaN where it cannot be told, and then only a given limit counts
  double usual_overflow = 0;

  // Below it a tensor suffers.
  double least_sqnr_db() const;
};
Result<QuantRecipe> quant_recipe(const QuantFormat& format);

// Why a tensor suffers; what comes first is told.
enum class QuantHarm : uint8_t {
  kNone,
  // kHarmfulPoints more of its values than usual saturate or are no longer finite; or kNoticeablePoints, and its SQNR
  // is low as well.
  kOverflow,
  kUnderflow,  // kHarmfulPoints more of its values than usual become zero
  kError,      // its SQNR is kDecibels below the usual one and below kGoodDecibels; or below the limit that was given
};
inline constexpr double kHarmfulPoints = 10;
inline constexpr double kNoticeablePoints = 1;
inline constexpr double kDecibels = 6;
inline constexpr double kGoodDecibels = 25;
std::string_view to_string(QuantHarm harm);  // "", "overflow", "underflow", "error"

struct QuantOutcome {
  QuantRecipe recipe;
  bool in_use = false;  // what was recorded, against its high-precision twin; else what would be
  // Without codes; an SQNR of -inf where what is left is exact and the rest was lost, or no value was finite before.
  QuantStats stats;
  QuantHarm harm = QuantHarm::kNone;
};

// The stats without their codes. `least_sqnr_db`: a limit that was given; nothing for the recipe's own.
QuantOutcome judge_quantized(const QuantRecipe& recipe, QuantStats stats, bool in_use,
                             const std::optional<double>& least_sqnr_db = {});

struct QuantFinding {
  size_t tensor = 0;
  std::vector<QuantOutcome> outcomes = {};  // the recipe in use, then the others as they were given

  bool suffers() const;
  double worst_sqnr_db() const;
};
// Those that suffer first, then by the lowest SQNR.
bool is_worse(const QuantFinding& a, const QuantFinding& b);

struct QuantCheckOptions {
  ScanOptions scan = {};  // `progress` is called from one thread at a time
  std::optional<double> least_sqnr_db = {};
  const Pass* against = nullptr;  // where the high-precision twins of quantized tensors are; null: in the pass itself
  unsigned threads = 0;           // 0: one per core
};

struct QuantCheckReport {
  std::vector<QuantFinding> found = {};   // in execution order
  uint64_t unwanted = 0;                  // left out by ScanOptions::wanted
  uint64_t not_real = 0;                  // integers, complex numbers, what is eight bits already, or has no elements
  uint64_t plain = 0;                     // without recipes: neither quantized nor on the grid of a format
  uint64_t parts = 0;                     // payloads, scales and the like, which their tensor speaks for
  std::vector<size_t> without_twin = {};  // quantized tensors that there is nothing to hold against
  std::vector<Unjudged> unjudged = {};
};

// Every tensor of a pass whose bytes were kept and that is f16, bf16, f32 or f64, each read once for all recipes. Equal
// bytes are read once for all tensors that have them. A quantized tensor is held against its twin (find_quant_twin());
// of a twin in another pass there is what the recipes would do, too. Without recipes it is about what is quantized:
// also plain weights whose values are on the grid of a format (QuantInference), held against those of the other pass.
QuantCheckReport check_quant(const Pass& pass, std::span<const QuantRecipe> recipes,
                             const QuantCheckOptions& options = {});

}  // namespace ttap
