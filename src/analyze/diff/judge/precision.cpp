#include "analyze/diff/judge/precision.h"

#include <optional>
#include <unordered_map>

#include "analyze/compare/measures.h"
#include "analyze/ops/event_op.h"
#include "analyze/ops/role_flow.h"

namespace ttap {
namespace {

using Precision = std::optional<DType>;  // nothing: of no float

bool travels(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

void take(Precision& to, const Precision& from) {
  if (from) to = to ? coarser(*to, *from) : *from;
}

class Precisions {
 public:
  explicit Precisions(const Side& side) : side_(side), of_event_(side.event_count()) {
    if (!runs_in_16_bits()) {
      for (size_t i = 0; i < side.tensor_count(); ++i) found_.push_back(dtype_of(side.tensor(i)));
      return;
    }
    for (size_t i = 0; i < side.tensor_count(); ++i) {
      const TensorRecord record = side.tensor(i);
      const DType own = dtype_of(record);
      found_.push_back(own);
      if (!travels(own)) continue;
      Precision precision = own;
      if (record.event < side.event_count()) precision = of(record, own);
      found_.back() = *precision;
      if (record.has_fingerprint) by_bits_.try_emplace(record.fingerprint.hash, *precision);
    }
  }
  std::vector<DType> take_all() { return std::move(found_); }

 private:
  bool runs_in_16_bits() const {
    size_t floats = 0, narrow = 0;
    for (size_t i = 0; i < side_.tensor_count(); ++i) {
      const TensorRecord record = side_.tensor(i);
      const DType dtype = dtype_of(record);
      if (!travels(dtype) || flow_of(record.role).input) continue;
      ++floats;
      narrow += dtype == DType::kF16 || dtype == DType::kBF16;
    }
    return 4 * narrow >= floats;
  }

  Precision of(const TensorRecord& record, DType own) {
    const EventRecord event = side_.event(record.event);
    const bool input = flow_of(record.role).input;
    Precision precision = own;
    if (event.use_count > 0) {
      for (uint32_t k = 0; k < event.use_count && !input; ++k)
        if (const UseRecord use = side_.use(record.event, k);
            use.role == "in" && use.record < found_.size() - 1 && travels(dtype_of(side_.tensor(use.record))))
          take(precision, found_[use.record]);
      return precision;
    }
    if (is_call_of_operator(event)) return precision;
    if (!is_parameter(record.role)) {
      if (record.has_fingerprint)
        if (const auto made = by_bits_.find(record.fingerprint.hash); made != by_bits_.end())
          take(precision, made->second);
      if (!input) take(precision, of_event_[record.event]);
      if (input && event.parent < of_event_.size()) take(precision, of_event_[event.parent]);
    }
    take(of_event_[record.event], precision);
    if (event.parent < of_event_.size()) take(of_event_[event.parent], precision);
    return precision;
  }

  const Side& side_;
  std::vector<DType> found_;
  std::vector<Precision> of_event_;
  std::unordered_map<Hash128, DType> by_bits_;
};

}  // namespace

std::vector<DType> precisions_of(const Side& side) { return Precisions(side).take_all(); }

}  // namespace ttap
