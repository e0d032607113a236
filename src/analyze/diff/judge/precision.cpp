#include "analyze/diff/judge/precision.h"

#include <optional>
#include <unordered_map>

#include "analyze/compare/measures.h"
#include "analyze/diff/sides/fp32_precision.h"
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
  explicit Precisions(const Side& side) : side_(side), fp32_(side), of_event_(side.event_count()) {
    narrow_travels_ = runs_in_16_bits();
    if (!narrow_travels_ && !fp32_.is_reduced()) {
      for (size_t i = 0; i < side.tensor_count(); ++i) found_.push_back(dtype_of(side.tensor(i)));
      return;
    }
    for (uint32_t i = 0; i < side.tensor_count(); ++i) {
      const TensorRecord record = side.tensor(i);
      const DType own = dtype_of(record);
      found_.push_back(own);
      if (!travels(own)) continue;
      const bool is_narrow = own == DType::kF16 || own == DType::kBF16;
      Precision precision = is_narrow && !narrow_travels_ ? DType::kF32 : own;
      take(precision, fp32_.of(i));
      if (record.event < side.event_count()) precision = of(record, *precision);
      found_.back() = coarser(own, *precision);
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
      if (input) take(precision, around(event));
    }
    take(of_event_[record.event], precision);
    take(around(event), precision);
    return precision;
  }
  // Of the call around a call; of none, of the program.
  Precision& around(const EventRecord& event) {
    return event.parent < of_event_.size() ? of_event_[event.parent] : of_program_;
  }

  const Side& side_;
  const Fp32Precision fp32_;
  bool narrow_travels_ = false;
  std::vector<DType> found_;
  std::vector<Precision> of_event_;
  Precision of_program_;
  std::unordered_map<Hash128, DType> by_bits_;
};

}  // namespace

std::vector<DType> precisions_of(const Side& side) { return Precisions(side).take_all(); }

}  // namespace ttap
