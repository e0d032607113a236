#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analyze/diff/sides/side.h"

namespace ttap {

// One rank's part of a tensor. The side lives longer.
struct Part {
  const Side* side = nullptr;
  uint32_t index = 0;
  uint32_t rank = 0;
  std::vector<int64_t> coordinate = {};  // of the rank in the mesh that the tensor is spread over
};
inline TensorRecord record_of(const Part& part) { return part.side->tensor(part.index); }

// What is done with parts that differ in one dimension of the mesh.
struct Join {
  enum class Kind : uint8_t { kConcat, kSum, kAverage, kReplicated } kind = Kind::kReplicated;
  int dim = 0;  // of kConcat; counted from the end when negative
  // Of kConcat: each part holds these side by side, and each of them is concatenated by itself. `copies` neighbours
  // hold the same. Empty: a part is one piece.
  struct Piece {
    int64_t size = 0;
    int64_t copies = 1;
  };
  std::vector<Piece> pieces = {};
  int64_t size = 0;  // of kConcat: what is behind it is padding; 0: nothing is
};
std::string to_string(const Join& join);  // "concat 1", "concat -1 of 3 pieces each", "sum", "average", "replicated"

// A tensor as it is made from its parts.
class Assembly {
 public:
  // `joins`: one per dimension of the mesh; the last is done first. Fails when the parts do not fit together. A part
  // with the coordinate of an earlier one is left out.
  static Result<Assembly> create(std::vector<Part> parts, std::span<const Join> joins);
  // One part as it is.
  explicit Assembly(Part part);

  const std::vector<int64_t>& shape() const { return root_.shape; }
  const Part& first() const { return copies_.front().front(); }
  // Whether every rank holds the whole tensor.
  bool is_whole() const { return root_.children.empty(); }
  // Whether all parts that read() needs have bytes.
  bool has_bytes() const;
  const std::vector<uint32_t>& left_out() const { return left_out_; }

  // Sums are made in double and rounded once; integers wrap. Of copies the first is taken, or that of `rank`.
  Result<SideBytes> read(const uint32_t* rank = nullptr) const;

  // Ranks whose copy of a part is not bit for bit the first one's, ascending.
  struct Copies {
    std::vector<uint32_t> differing = {};
    std::vector<uint32_t> unknown = {};  // neither hash nor bytes to tell
  };
  Copies compare_copies() const;
  // Whether that takes reading bytes.
  bool comparing_reads() const;

  // The ranks that hold this element as read() gives it; nothing where it is a sum.
  std::vector<uint32_t> ranks_of(uint64_t element, std::span<const uint32_t> differing) const;

 private:
  // Some neighbouring elements of a dimension, as one child has them, or several that should have the same.
  struct Segment {
    std::vector<size_t> children = {};
    int64_t begin = 0;
    int64_t size = 0;
  };
  struct Node {
    Join join = {};
    std::vector<int64_t> shape = {};
    std::vector<Node> children = {};
    std::vector<Segment> segments = {};  // of kConcat, in their order
    size_t copies = 0;                   // of a node without children
  };
  Assembly() = default;
  Result<Node> build(std::span<const std::vector<int64_t>> places, size_t first_copies, std::span<const Join> joins,
                     size_t depth) const;
  static Status lay_segments(Node& node);
  Result<SideBytes> read(const Node& node, const uint32_t* rank) const;
  Result<SideBytes> read_concatenated(const Node& node, const uint32_t* rank) const;
  std::vector<uint32_t> ranks_in(const Node& node) const;
  void compare_segments(const Node& node, Copies& result) const;
  std::vector<uint32_t> ranks_of(const Node& node, uint64_t element, std::span<const uint32_t> differing) const;

  std::vector<std::vector<Part>> copies_;  // parts that should be the same, by place
  std::vector<uint32_t> left_out_;
  Node root_;
};

}  // namespace ttap
