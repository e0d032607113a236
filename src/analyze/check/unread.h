#pragma once

#include <string>
#include <string_view>

#include "ttap/run.h"

namespace ttap {

// Why the value of a tensor was not read when its operator ran, as the notes of its event say: `not initialised`. Empty
// when they say nothing of it.
std::string why_unread(const Pass& pass, const TensorRecord& record);

// Whether it is because there was no value to read: memory that nothing had been written to, a meta or a fake tensor.
bool has_no_value(std::string_view why);

// Whether notes that call tensors by place mean the one with this role and path. A result is named with its role; an
// argument, which has a place of its own, perhaps not.
bool is_place_of(std::string_view place, std::string_view role, std::string_view path);

}  // namespace ttap
