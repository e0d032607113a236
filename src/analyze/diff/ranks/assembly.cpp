#include "analyze/diff/ranks/assembly.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "analyze/diff/sides/joined_bytes.h"

namespace ttap {

namespace {

Error misfit(std::string why) { return {.code = ErrorCode::kInvalidArgument, .message = std::move(why)}; }

std::string shape_text(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

bool same_shape(std::span<const int64_t> a, std::span<const int64_t> b) { return std::ranges::equal(a, b); }

Combine combine_of(const Join& join) { return join.kind == Join::Kind::kAverage ? Combine::kAverage : Combine::kSum; }

enum class Sameness : uint8_t { kSame, kDifferent, kUnknown };

// Copies of one dtype and shape.
Sameness compare(const Part& a, const Part& b) {
  const TensorRecord one = record_of(a), other = record_of(b);
  if (one.has_fingerprint && other.has_fingerprint)
    return one.fingerprint.hash == other.fingerprint.hash ? Sameness::kSame : Sameness::kDifferent;
  if (!one.has_bytes || !other.has_bytes) return Sameness::kUnknown;
  const auto first = a.side->read(a.index), second = b.side->read(b.index);
  if (!first.ok() || !second.ok()) return Sameness::kUnknown;
  return same_bits(first.value().view, second.value().view) ? Sameness::kSame : Sameness::kDifferent;
}

}  // namespace

std::string to_string(const Join& join) {
  switch (join.kind) {
    case Join::Kind::kConcat: return fmt::format("concat {}", join.dim);
    case Join::Kind::kSum: return "sum";
    case Join::Kind::kAverage: return "average";
    case Join::Kind::kReplicated: return "replicated";
  }
  return {};
}

Assembly::Assembly(Part part) {
  const auto shape = record_of(part).shape;
  root_.shape.assign(shape.begin(), shape.end());
  copies_.emplace_back().push_back(std::move(part));
}

Result<Assembly> Assembly::create(std::vector<Part> parts, std::span<const Join> joins) {
  TTAP_CHECK(!parts.empty());
  Assembly assembly;
  const TensorRecord first = record_of(parts.front());
  // Copies have the same place: their coordinate without the dimensions along which the tensor is replicated.
  std::map<std::vector<int64_t>, std::vector<Part>> places;
  std::set<std::vector<int64_t>> seen;
  for (Part& part : parts) {
    const TensorRecord record = record_of(part);
    if (part.coordinate.size() != joins.size()) return misfit("the ranks disagree on the mesh");
    if (record.dtype != first.dtype)
      return misfit(fmt::format("rank {} has {}, rank {} {}", parts.front().rank, dtype_name(first.dtype), part.rank,
                                dtype_name(record.dtype)));
    if (!seen.insert(part.coordinate).second) {
      assembly.left_out_.push_back(part.rank);
      continue;
    }
    std::vector<int64_t> place;
    for (size_t dim = 0; dim < joins.size(); ++dim)
      if (joins[dim].kind != Join::Kind::kReplicated) place.push_back(part.coordinate[dim]);
    auto& copies = places[std::move(place)];
    if (!copies.empty() && !same_shape(record.shape, record_of(copies.front()).shape))
      return misfit(fmt::format("the copies have different shapes: rank {} {}, rank {} {}", copies.front().rank,
                                shape_text(record_of(copies.front()).shape), part.rank, shape_text(record.shape)));
    copies.push_back(std::move(part));
  }
  std::vector<Join> rest;
  for (const Join& join : joins)
    if (join.kind != Join::Kind::kReplicated) rest.push_back(join);
  std::vector<std::vector<int64_t>> order;
  for (auto& [place, copies] : places) {
    order.push_back(place);
    assembly.copies_.push_back(std::move(copies));
  }
  TTAP_ASSIGN(assembly.root_, assembly.build(order, 0, rest, 0));
  return assembly;
}

Result<Assembly::Node> Assembly::build(std::span<const std::vector<int64_t>> places, size_t first_copies,
                                       std::span<const Join> joins, size_t depth) const {
  Node node;
  const Part& part = copies_[first_copies].front();
  const TensorRecord record = record_of(part);
  if (depth == joins.size()) {
    node.copies = first_copies;
    node.shape.assign(record.shape.begin(), record.shape.end());
    return node;
  }
  node.join = joins[depth];
  for (size_t begin = 0; begin < places.size();) {
    size_t end = begin + 1;
    while (end < places.size() && places[end][depth] == places[begin][depth]) ++end;
    TTAP_ASSIGN(Node child, build(places.subspan(begin, end - begin), first_copies + begin, joins, depth + 1));
    node.children.push_back(std::move(child));
    begin = end;
  }

  node.shape = node.children.front().shape;
  const size_t ndim = node.shape.size();
  const bool concat = node.join.kind == Join::Kind::kConcat;
  if (concat) {
    const int64_t dim = node.join.dim < 0 ? node.join.dim + static_cast<int64_t>(ndim) : node.join.dim;
    if (dim < 0 || dim >= static_cast<int64_t>(ndim))
      return misfit(fmt::format("there is no dimension {} in {}", node.join.dim, shape_text(node.shape)));
    node.join.dim = static_cast<int>(dim);
  } else if (!can_combine(record.dtype, combine_of(node.join))) {
    return misfit(fmt::format("{} cannot be made of {}", to_string(node.join), dtype_name(record.dtype)));
  }
  for (const Node& child : std::span(node.children).subspan(1)) {
    bool fits = child.shape.size() == ndim;
    for (size_t d = 0; fits && d < ndim; ++d)
      fits = child.shape[d] == node.shape[d] || (concat && d == static_cast<size_t>(node.join.dim));
    if (!fits)
      return misfit(fmt::format("the shapes {} and {} do not fit", shape_text(node.children.front().shape),
                                shape_text(child.shape)));
    if (concat &&
        __builtin_add_overflow(node.shape[node.join.dim], child.shape[node.join.dim], &node.shape[node.join.dim]))
      return misfit("the whole would be too large");
  }
  TTAP_TRY([&]() -> Status {
    const auto count = checked_element_count(node.shape, record.dtype);
    return count.ok() ? Status() : Status(count.error());
  }());
  return node;
}

bool Assembly::has_bytes() const {
  return std::ranges::all_of(copies_, [](const auto& copies) { return record_of(copies.front()).has_bytes; });
}

Result<SideBytes> Assembly::read(const uint32_t* rank) const { return read(root_, rank); }

Result<SideBytes> Assembly::read(const Node& node, const uint32_t* rank) const {
  if (node.children.empty()) {
    const auto& copies = copies_[node.copies];
    const Part* part = &copies.front();
    for (const Part& copy : copies)
      if (rank != nullptr && copy.rank == *rank) part = &copy;
    return part->side->read(part->index);
  }
  std::vector<SideBytes> parts;
  for (const Node& child : node.children) {
    TTAP_ASSIGN(SideBytes part, read(child, rank));
    parts.push_back(std::move(part));
  }
  if (node.join.kind == Join::Kind::kConcat) return concatenated(parts, node.shape, static_cast<size_t>(node.join.dim));
  return combined(parts, node.shape, combine_of(node.join));
}

bool Assembly::comparing_reads() const {
  for (const auto& copies : copies_)
    for (const Part& copy : copies)
      if (copies.size() > 1 && !record_of(copy).has_fingerprint) return true;
  return false;
}

Assembly::Copies Assembly::compare_copies() const {
  Copies result;
  for (const auto& copies : copies_) {
    for (const Part& copy : std::span(copies).subspan(1)) {
      const Sameness sameness = compare(copies.front(), copy);
      if (sameness == Sameness::kDifferent) result.differing.push_back(copy.rank);
      if (sameness == Sameness::kUnknown) result.unknown.push_back(copy.rank);
    }
  }
  std::ranges::sort(result.differing);
  std::ranges::sort(result.unknown);
  return result;
}

std::vector<uint32_t> Assembly::ranks_of(uint64_t element, std::span<const uint32_t> differing) const {
  const Node* node = &root_;
  if (element >= element_count({nullptr, DType::kU8, root_.shape, {}})) return {};
  while (!node->children.empty()) {
    if (node->join.kind != Join::Kind::kConcat) return {};
    // In each block, which is all that has the same index before the dimension, the children's parts follow one
    // another.
    const auto dim = static_cast<size_t>(node->join.dim);
    uint64_t inner_size = 1;
    for (size_t d = dim + 1; d < node->shape.size(); ++d) inner_size *= static_cast<uint64_t>(node->shape[d]);
    const uint64_t block_size = inner_size * static_cast<uint64_t>(node->shape[dim]);
    if (block_size == 0) return {};
    const uint64_t block = element / block_size;
    uint64_t inner = element % block_size;
    const Node* holder = nullptr;
    for (const Node& child : node->children) {
      const uint64_t size = inner_size * static_cast<uint64_t>(child.shape[dim]);
      if (inner < size) {
        holder = &child;
        element = block * size + inner;
        break;
      }
      inner -= size;
    }
    if (holder == nullptr) return {};
    node = holder;
  }
  std::vector<uint32_t> ranks;
  for (const Part& copy : copies_[node->copies])
    if (!std::ranges::binary_search(differing, copy.rank)) ranks.push_back(copy.rank);
  return ranks;
}

}  // namespace ttap
