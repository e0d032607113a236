#include "analyze/diff/dataflow.h"

#include <algorithm>

#include "analyze/diff/cause.h"
#include "analyze/diff/op_list.h"

namespace ttap {
namespace {

constexpr size_t kMostLookedThrough = 4096;  // ops without a counterpart, above one argument

}  // namespace

Dataflow::Dataflow(const Side& a, const Side& b, std::span<const TensorDiff> tensors)
    : tensors_(tensors),
      a_{a, std::vector<uint32_t>(a.tensor_count(), kNoTensor), {}, {}},
      b_{b, std::vector<uint32_t>(b.tensor_count(), kNoTensor), {}, {}} {
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    const Match& match = tensors[i].match;
    if (match.a != kNoTensor) a_.position_of[match.a] = i;
    if (match.b != kNoTensor) b_.position_of[match.b] = i;
  }
  // Those are asked for only where a side has something that the other has not.
  if (std::ranges::all_of(tensors,
                          [](const TensorDiff& t) { return t.match.a != kNoTensor && t.match.b != kNoTensor; }))
    return;
  for (Half* half : {&a_, &b_})
    for (size_t i = 0; i < half->side.tensor_count(); ++i)
      if (const TensorRecord record = half->side.tensor(i); record.has_fingerprint) {
        half->bits.insert(record.fingerprint.hash);
        if (const uint64_t content = is_from_outside(*half, record) ? content_of(record) : 0; content != 0)
          half->given.insert(content);
      }
}

bool Dataflow::is_of_op(const Half& half, uint32_t tensor) {
  const uint32_t event = half.side.tensor(tensor).event;
  return event < half.side.event_count() && is_op(half.side.event(event));
}

bool Dataflow::is_from_outside(const Half& half, const TensorRecord& record) {
  if (is_input(record.role)) return true;
  return record.event < half.side.event_count() && hands_on(half.side.event(record.event));
}

bool Dataflow::tells(const Half& half, uint32_t tensor) {
  if (tensor == kNoTensor) return false;
  const TensorRecord record = half.side.tensor(tensor);
  if (is_input(record.role) || record.event >= half.side.event_count()) return false;
  // A module of a graph says which value is its result, and not what it was given.
  const EventRecord event = half.side.event(record.event);
  return event.use_count > 0 && (is_op(event) || half.side.use(record.event, 0).role == "in");
}

std::optional<Dataflow::Inputs> Dataflow::inputs_of(uint32_t position) const {
  const Match& match = tensors_[position].match;
  // A module stands for all that ran inside it, and an op that was matched with it for its last step only.
  if (match.a != kNoTensor && match.b != kNoTensor && is_of_op(a_, match.a) != is_of_op(b_, match.b))
    return std::nullopt;
  const bool by_a = tells(a_, match.a), by_b = tells(b_, match.b);
  if (!by_a && !by_b) return std::nullopt;
  Inputs of_a, of_b;
  if (by_a) collect(a_, b_, match.a, of_a);
  if (by_b) collect(b_, a_, match.b, of_b);
  if (!by_a) return of_b;
  if (!by_b) return of_a;
  // The arguments of the one are those of the other. Where one side knows them all, all are known.
  Inputs both = std::move(of_a);
  both.found.insert(both.found.end(), of_b.found.begin(), of_b.found.end());
  std::ranges::sort(both.found);
  both.found.erase(std::unique(both.found.begin(), both.found.end()), both.found.end());
  both.same_bits = std::max(both.same_bits, of_b.same_bits);
  both.unknown = std::min(both.unknown, of_b.unknown);
  return both;
}

void Dataflow::collect(const Half& half, const Half& other, uint32_t tensor, Inputs& inputs) const {
  std::vector<uint32_t> events = {half.side.tensor(tensor).event};
  std::unordered_set<uint32_t> seen;  // records
  for (size_t next = 0; next < events.size(); ++next) {
    const EventRecord event = half.side.event(events[next]);
    for (uint32_t k = 0; k < event.use_count; ++k) {
      const UseRecord use = half.side.use(events[next], k);
      if (use.role != "in" || is_for_results(use.path)) continue;
      if (use.record >= half.position_of.size()) {
        ++inputs.unknown;
        continue;
      }
      if (!seen.insert(use.record).second) continue;
      const uint32_t position = half.position_of[use.record];
      if (position != kNoTensor && tensors_[position].match.a != kNoTensor && tensors_[position].match.b != kNoTensor) {
        inputs.found.push_back(position);
        continue;
      }
      const TensorRecord record = half.side.tensor(use.record);
      if (record.event < half.side.event_count() && leaves_undefined(half.side.event(record.event))) continue;
      const bool outside = is_from_outside(half, record);
      const uint64_t content = outside ? content_of(record) : 0;
      if ((record.has_fingerprint && other.bits.contains(record.fingerprint.hash)) ||
          (content != 0 && other.given.contains(content))) {
        ++inputs.same_bits;
      } else if (record.role != "in" && !outside && record.event < half.side.event_count() &&
                 record.event != events[next] && half.side.event(record.event).returned &&
                 events.size() < kMostLookedThrough) {
        events.push_back(record.event);
      } else {
        ++inputs.unknown;
      }
    }
  }
}

}  // namespace ttap
