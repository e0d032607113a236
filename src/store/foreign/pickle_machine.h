#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ttap/dtype.h"
#include "ttap/result.h"

namespace ttap {

enum class PickleKind : uint8_t {
  kNone,
  kBool,
  kInt,
  kBigInt,  // beyond 64 bits; only its length is kept
  kFloat,
  kComplex,
  kText,
  kBytes,
  kTuple,
  kList,
  kDict,     // items: key, value, key, value, …
  kSet,      // items: one list
  kName,     // of a Python class or function that the host knows; integer is the host's
  kDevice,   // text, and perhaps an index in integer
  kStorage,  // text is its key, integer its elements
  kTensor,   // items: storage, shape, strides; integer is the storage offset
};
std::string_view to_string(PickleKind kind);

using PickleId = uint32_t;  // a value's place in the heap: references, cycles and sharing cost nothing

struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  std::optional<DType> dtype = {};
  int64_t integer = 0;
  double number = 0;
  double imaginary = 0;
  std::string_view text = {};  // points into the pickle
  std::vector<PickleId> items = {};
};

// All values of one pickle. Every opcode makes at most two and is at least a byte long, so the heap is never
// more than a fixed multiple of the pickle.
class PickleHeap {
 public:
  PickleId add(PickleValue value) {
    values_.push_back(std::move(value));
    return static_cast<PickleId>(values_.size() - 1);
  }
  PickleValue& operator[](PickleId id) { return values_[id]; }
  const PickleValue& operator[](PickleId id) const { return values_[id]; }

 private:
  std::deque<PickleValue> values_;  // never copied as it grows
};

// What the names in a pickle mean. The machine itself knows none and calls nothing. A host may make at most
// one value a call, and must not copy what its arguments hold: a pickle can pass the same list a million
// times.
class PickleHost {
 public:
  virtual ~PickleHost() = default;
  virtual Result<PickleId> name(std::string_view module, std::string_view name) = 0;
  virtual Result<PickleId> call(PickleId function, PickleId arguments) = 0;
  virtual Result<PickleId> persistent(PickleId id) = 0;
  virtual Status set_state(PickleId object, PickleId state) = 0;
};

// Runs the opcodes of protocols 2 to 5 and returns the value at the end. Errors carry the offset in `pickle`:
//   kTruncated, kCorrupt   ends early, or an opcode finds the stack otherwise than it needs it
//   kForbidden             objects of a class, extension codes; and what the host refuses
//   kUnsupported           opcodes of protocols 0 and 1, out-of-band buffers; kVersion: a protocol above 5
//   kTooLarge              a pickle of 2 GiB or more
Result<PickleId> run_pickle(std::span<const std::byte> pickle, PickleHeap& heap, PickleHost& host);

}  // namespace ttap
