#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyze/check/origin.h"
#include "report/run/selection.h"
#include "report/text/json_writer.h"

// A tensor that `ttap check` reports, kept apart from its pass, which is closed before that.
namespace ttap {

struct CheckedTensor {
  uint32_t rank = 0;
  int64_t pid = 0;
  uint32_t pass = 0;
  size_t index = 0;
  std::string key = {};
  DType dtype = DType::kF32;
  std::vector<int64_t> shape = {};
  Nonfinite counts = {};  // of one that was found

  // Why it was found, where the recording says so.
  struct Because {
    OriginKind origin;
    bool inherited;
    bool fault;
    std::optional<uint32_t> from_rank = {};  // a collective brought it from there
  };
  std::optional<Because> because = {};
};

CheckedTensor checked_tensor(const SelectedPass& selected, const Pass& pass, size_t index);
CheckedTensor checked_tensor(const SelectedPass& selected, const Pass& pass, const Nonfinite& found);

std::string counts_text(const Nonfinite& counts);  // 1 NaN, 2 -Inf
// Members of the object that is open.
void write_checked(JsonWriter& json, const CheckedTensor& tensor);
void write_counts(JsonWriter& json, const Nonfinite& counts);

}  // namespace ttap
