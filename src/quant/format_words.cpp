#include "quant/format_words.h"

#include <array>
#include <span>

namespace ttap {
namespace {

// In the order of the enumerators.
constexpr std::array<std::string_view, 11> kElementWords = {"e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", "e2m3", "e3m2",
                                                            "e2m1", "int8", "uint8",    "int4",     "uint4"};
constexpr std::array<std::string_view, 3> kPackings = {"none", "low_first", "high_first"};
constexpr std::array<std::string_view, 5> kScaleTypes = {"f32", "f16", "bf16", "e8m0", "e4m3"};
constexpr std::array<std::string_view, 3> kLayouts = {"compact", "padded", "swizzled"};
constexpr std::array<std::string_view, 4> kGlobals = {"none", "factor", "divisor", "amax"};
constexpr std::array<std::string_view, 4> kZeroPoints = {"none", "integer", "value", "middle"};
constexpr std::array<std::string_view, 4> kRules = {"floor", "ceil", "even", "rceil"};

std::span<const std::string_view> words(QuantElement) { return kElementWords; }
std::span<const std::string_view> words(QuantPacking) { return kPackings; }
std::span<const std::string_view> words(ScaleType) { return kScaleTypes; }
std::span<const std::string_view> words(ScaleLayout) { return kLayouts; }
std::span<const std::string_view> words(GlobalScale) { return kGlobals; }
std::span<const std::string_view> words(ZeroPoint) { return kZeroPoints; }
std::span<const std::string_view> words(MxScaleRule) { return kRules; }

template <class Enum>
std::string_view word(Enum value) {
  return words(value)[static_cast<size_t>(value)];
}

}  // namespace

std::string_view word_for(QuantElement value) { return word(value); }
std::string_view word_for(QuantPacking value) { return word(value); }
std::string_view word_for(ScaleType value) { return word(value); }
std::string_view word_for(ScaleLayout value) { return word(value); }
std::string_view word_for(GlobalScale value) { return word(value); }
std::string_view word_for(ZeroPoint value) { return word(value); }
std::string_view word_for(MxScaleRule value) { return word(value); }

template <class Enum>
Result<Enum> from_word(std::string_view given) {
  const auto known = words(Enum{});
  std::string list;
  for (size_t i = 0; i < known.size(); ++i) {
    if (known[i] == given) return static_cast<Enum>(i);
    list += (i == 0 ? "" : ", ") + std::string(known[i]);
  }
  Error error{ErrorCode::kInvalidArgument, "'" + std::string(given) + "' is none of a quantized format's words"};
  error.hint = "one of " + list;
  return error;
}

template TTAP_API Result<QuantElement> from_word(std::string_view);
template TTAP_API Result<QuantPacking> from_word(std::string_view);
template TTAP_API Result<ScaleType> from_word(std::string_view);
template TTAP_API Result<ScaleLayout> from_word(std::string_view);
template TTAP_API Result<GlobalScale> from_word(std::string_view);
template TTAP_API Result<ZeroPoint> from_word(std::string_view);
template TTAP_API Result<MxScaleRule> from_word(std::string_view);

}  // namespace ttap
