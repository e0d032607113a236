#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "analyze/compare/measures.h"
#include "analyze/compare/pair_kernels.h"
#include "core/logical_copy.h"

namespace ttap {

// |b − a| of two values, rounded once, to double.
double distance_of(const Number& a, const Number& b);

// Two tensors of the same shape as pairs of values, in C order. Where only one of them has two values to an element,
// the second value of the other is 0. Reading from several threads is fine, each with its own room.
class PairReader {
 public:
  PairReader(const TensorView& a, const TensorView& b, const PairKernels& kernels);

  uint64_t values() const { return a_.copy.elements() * parts_; }
  uint64_t parts() const { return parts_; }  // values to an element
  bool both_float() const { return a_.is_float && b_.is_float; }
  bool both_integer() const { return !a_.is_float && !b_.is_float; }

  // Room for one piece.
  struct Room {
    alignas(64) double a[kPieceValues + kPiecePadding];
    alignas(64) double b[kPieceValues + kPiecePadding];
    alignas(64) double distance[kPieceValues + kPiecePadding];
    alignas(64) std::byte bytes_a[kPieceValues * 8];
    alignas(64) std::byte bytes_b[kPieceValues * 8];
  };
  // `first` and `count` are multiples of parts(); `count` is at most kPieceValues.
  PairPiece read(uint64_t first, size_t count, Room& room) const;

  // One pair as it stands there.
  WorstPair at(uint64_t value) const;

 private:
  struct SideOfPair {
    SideOfPair(const TensorView& view, const PairKernels& kernels);
    const std::byte* bytes(uint64_t first, size_t count, std::byte* room) const;

    LogicalCopy copy;
    const std::byte* data;
    DType dtype;
    uint64_t parts;
    bool is_float;
    bool is_wide;  // a 64-bit integer
    void (*widen)(const std::byte* from, size_t count, double* to);
  };
  void find_distances(const std::byte* a, const std::byte* b, size_t elements, Room& room) const;

  SideOfPair a_, b_;
  const PairKernels* kernels_;
  uint64_t parts_;
};

}  // namespace ttap
