#include "analyze/diff/match/ops/op_keys.h"

#include "core/mix64.h"

namespace ttap {
namespace {

constexpr uint64_t kFromOutside = 0x6F7574;
constexpr uint64_t kNotRecorded = 0x6E6F6E65;
constexpr uint64_t kOfPair = 0x70616972;

uint64_t add(uint64_t hash, uint64_t more) { return mix64(hash * 31 + more); }

}  // namespace

OpKeys keys_of(const OpList& list, const OpKnown& known) {
  const size_t count = list.ops().size();
  OpKeys keys;
  for (auto* each : {&keys.dataflow, &keys.made, &keys.given, &keys.outside, &keys.weights, &keys.place})
    each->resize(count);
  // What a value is, as far as both sides can say it in the same words; 0 before its op was met.
  std::vector<uint64_t> origin(known.shared.size());
  std::vector<bool> found(known.shared.size());  // the other side has the very value
  for (uint32_t i = 0; i < count; ++i) {
    const Op& op = list.ops()[i];
    for (const uint32_t tensor : list.outside(op)) {
      found[tensor] = known.joins[tensor] != kNoTensor || known.shared[tensor];
      origin[tensor] = known.joins[tensor] != kNoTensor ? add(kOfPair, known.joins[tensor])
                       : known.shared[tensor]           ? list.bits(tensor)
                                                        : add(kFromOutside, list.shape(tensor));
    }
    const uint64_t self = add(op.name, op.shape);
    const uint64_t turn = add(self, op.backward ? 2 : 1);
    uint64_t flow = self, given = turn, outside = add(turn, 5), place = add(op.shape, op.dtype);
    bool any = false, any_given = false, all_given = true, any_outside = false;
    for (const uint32_t input : list.inputs(op)) {
      const uint64_t from = input != kNoTensor && origin[input] != 0 ? origin[input] : kNotRecorded;
      any |= from != kNotRecorded;
      flow = add(flow, from);
      place = add(place, from);
      if (from == kNotRecorded || !found[input] || list.is_plain(input)) {
        all_given = false;
        continue;
      }
      given = add(given, from);
      any_given = true;
      if (list.position_of(input) != kNoTensor) continue;
      outside = add(outside, from);
      any_outside = true;
    }
    uint64_t weights = 0;
    for (const uint32_t input : list.inputs(op))
      if (input != kNoTensor && list.op_of(input) != kNoOp && known.weighs[input]) weights += list.content(input);
    if (weights != 0 && op.value_count == 1 && !op.copies && !op.kernel)
      keys.weights[i] = add(add(weights, list.elements(list.values(op).front())), op.backward ? 2 : 1);
    uint64_t made = add(self, 7);
    bool all_made = op.value_count > 0;
    for (const uint32_t value : list.values(op)) {
      all_made &= known.shared[value] && !list.is_plain(value);
      made = add(made, list.bits(value));
    }
    keys.dataflow[i] = any ? (all_made ? add(flow, made) : flow) : 0;
    keys.made[i] = all_made ? made : 0;
    keys.given[i] = !any_given ? 0 : all_given ? given : add(given, known.streams[i] + uint64_t{3});
    keys.outside[i] = any_outside ? outside : 0;
    keys.place[i] = any ? place : 0;
    for (const uint32_t value : list.values(op)) {
      const uint32_t position = list.position_of(value);
      found[value] = true;
      if (known.joins[value] != kNoTensor) {
        origin[value] = add(kOfPair, known.joins[value]);
      } else if (known.shared[value]) {
        origin[value] = list.bits(value);
      } else {
        // Only one side may have a cast.
        const uint32_t input = op.same || op.casts ? list.inputs(op).front() : kNoTensor;
        found[value] = op.same && found[input];
        origin[value] = input != kNoTensor && origin[input] != 0 ? origin[input] : add(add(flow, 11), position);
      }
    }
  }
  return keys;
}

}  // namespace ttap
