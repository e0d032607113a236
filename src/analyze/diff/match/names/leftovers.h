#pragma once

#include <string>
#include <vector>

#include "analyze/diff/match/names/name_likeness.h"
#include "analyze/diff/match/pairing.h"
#include "analyze/diff/sides/side.h"

// What there is to know about tensors that neither keys nor the map could match.
namespace ttap {

// Texts and shapes are told apart by a 64-bit hash.
struct Traits {
  uint32_t tensor = 0;
  uint32_t gap = 0;        // between which matched tensors it lies; only leftovers of the same gap are in order
  uint64_t signature = 0;  // role and number of elements: what a pair must share
  uint64_t shape = 0;
  uint64_t squeezed = 0;  // the shape without dimensions of size 1
  int64_t width = 1;      // the size of the last dimension
  uint64_t kind = 0;      // of its event; 0 without one
  uint64_t path = 0;
  uint64_t name = 0;
  uint64_t partner = 0;  // the name on the other side that a tensor of this name is matched with; 0 for none
  uint32_t call = 1;
  uint32_t pattern = 0;  // position in Leftovers::patterns
  NameNumbers numbers = {};
  bool has_namesake = false;  // the other side has a leftover of this signature with these numbers
  uint32_t value = 0;         // SharedValues: what it holds, where the other side has it
  bool inner = false;         // a call with other calls inside
  bool hands_on = false;      // a call that returns nothing but what was there before: dropout
  uint8_t values = 0;         // bool, integers, floats or complex
};

struct Leftovers {
  std::vector<Traits> traits;         // in execution order
  std::vector<std::string> patterns;  // of the names, with the parent's name before a name that does not begin with it
};

struct LeftoverPair {
  Leftovers a;
  Leftovers b;
  uint32_t gaps = 0;
};

// Nothing on both sides when one side has no leftovers.
LeftoverPair find_leftovers(const Side& a, const Side& b, const SharedValues& values, const Pairing& pairing);

}  // namespace ttap
