#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analyze/diff/result/match.h"
#include "analyze/diff/sides/side.h"

// Values that are made of recorded tensors: a slice, a sum, several side by side.
namespace ttap {

// The shape after the steps; an error where they do not fit, in words about that shape.
Result<std::vector<int64_t>> shape_after(std::vector<int64_t> shape, const std::vector<ValueStep>& steps);

// What read_made() gives; an error where it cannot be made of these shapes.
Result<std::vector<int64_t>> shape_of_made(const Side& side, const MadeValue& made);

// The tensor, or what is made of it unless `made` is null; with the copies of `rank` (Side::read_replica()) unless that
// is null.
Result<SideBytes> read_made(const Side& side, uint32_t tensor, const MadeValue* made, const uint32_t* rank = nullptr);

// Which element of which tensor became this element; all of them where several were combined.
std::vector<std::pair<uint32_t, uint64_t>> sources_of(const Side& side, uint32_t tensor, const MadeValue* made,
                                                      uint64_t element);

// Whether the bytes of all parts are there.
bool has_bytes(const Side& side, const MadeValue& made);

// "qkv_proj[..., 0:64]", "layer/0 + layer/1", "q and k and v along axis -1".
std::string made_text(const Side& side, const MadeValue& made);

}  // namespace ttap
