#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ttap/quant.h"

// The words for what a format is made of, the same in files, in Python and in messages.
namespace ttap {

TTAP_API std::string_view word_for(QuantElement value);
TTAP_API std::string_view word_for(QuantPacking value);
TTAP_API std::string_view word_for(ScaleType value);
TTAP_API std::string_view word_for(ScaleLayout value);
TTAP_API std::string_view word_for(GlobalScale value);
TTAP_API std::string_view word_for(ZeroPoint value);
TTAP_API std::string_view word_for(MxScaleRule value);

// The value that `word` is for; the error lists what there is. For the types above.
template <class Enum>
TTAP_API Result<Enum> from_word(std::string_view word);

}  // namespace ttap
