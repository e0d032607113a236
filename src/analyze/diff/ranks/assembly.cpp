#include "analyze/diff/ranks/assembly.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
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
    case Join::Kind::kConcat:
      return join.pieces.empty() ? fmt::format("concat {}", join.dim)
                                 : fmt::format("concat {} of {} pieces each", join.dim, join.pieces.size());
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
  }
  if (concat) {
    TTAP_TRY(lay_segments(node));
  }
  TTAP_TRY([&]() -> Status {
    const auto count = checked_element_count(node.shape, record.dtype);
    return count.ok() ? Status() : Status(count.error());
  }());
  return node;
}

// Fills in where each piece of a concatenation comes from, and how long the whole is.
Status Assembly::lay_segments(Node& node) {
  const auto dim = static_cast<size_t>(node.join.dim);
  if (node.join.pieces.empty()) {
    for (size_t i = 0; i < node.children.size(); ++i)
      node.segments.push_back({.children = {i}, .size = node.children[i].shape[dim]});
  }
  int64_t begin = 0;
  for (const auto& [size, copies] : node.join.pieces) {
    const auto group = static_cast<size_t>(copies);
    if (copies < 1 || node.children.size() % group != 0)
      return misfit(fmt::format("{} parts cannot be {} copies each", node.children.size(), copies));
    for (size_t i = 0; i < node.children.size(); i += group) {
      node.segments.push_back({.begin = begin, .size = size});
      for (size_t copy = i; copy < i + group; ++copy) node.segments.back().children.push_back(copy);
    }
    begin += size;
  }
  for (const Node& child : node.children)
    if (!node.join.pieces.empty() && child.shape[dim] != begin)
      return misfit(fmt::format("its pieces are {} long, not {}", begin, child.shape[dim]));
  int64_t total = 0;
  for (Segment& segment : node.segments) {
    if (node.join.size > 0) segment.size = std::min(segment.size, node.join.size - total);
    if (__builtin_add_overflow(total, segment.size, &total)) return misfit("the whole would be too large");
  }
  node.shape[dim] = total;
  return {};
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
  if (node.join.kind == Join::Kind::kConcat) return read_concatenated(node, rank);
  std::vector<SideBytes> parts;
  for (const Node& child : node.children) {
    TTAP_ASSIGN(SideBytes part, read(child, rank));
    parts.push_back(std::move(part));
  }
  return combined(parts, node.shape, combine_of(node.join));
}

Result<SideBytes> Assembly::read_concatenated(const Node& node, const uint32_t* rank) const {
  const auto dim = static_cast<size_t>(node.join.dim);
  std::vector<SideBytes> children, segments;
  for (const Node& child : node.children) {
    TTAP_ASSIGN(SideBytes bytes, read(child, rank));
    children.push_back(std::move(bytes));
  }
  for (const Segment& segment : node.segments) {
    size_t from = segment.children.front();
    for (const size_t child : segment.children)
      if (rank != nullptr && std::ranges::count(ranks_in(node.children[child]), *rank) > 0) from = child;
    segments.push_back(narrowed(children[from].view, dim, segment.begin, segment.size));
  }
  return concatenated(segments, node.shape, dim);
}

std::vector<uint32_t> Assembly::ranks_in(const Node& node) const {
  std::vector<uint32_t> ranks;
  if (node.children.empty())
    for (const Part& part : copies_[node.copies]) ranks.push_back(part.rank);
  for (const Node& child : node.children) std::ranges::copy(ranks_in(child), std::back_inserter(ranks));
  return ranks;
}

// Pieces of which several parts hold copies.
void Assembly::compare_segments(const Node& node, Copies& result) const {
  for (const Node& child : node.children) compare_segments(child, result);
  for (const Segment& segment : node.segments) {
    for (size_t copy = 1; copy < segment.children.size(); ++copy) {
      const Node &one = node.children[segment.children.front()], &other = node.children[segment.children[copy]];
      const auto first = read(one, nullptr), second = read(other, nullptr);
      const auto dim = static_cast<size_t>(node.join.dim);
      const bool known = first.ok() && second.ok();
      if (known && same_bits(narrowed(first->view, dim, segment.begin, segment.size).view,
                             narrowed(second->view, dim, segment.begin, segment.size).view))
        continue;
      std::ranges::copy(ranks_in(other), std::back_inserter(known ? result.differing : result.unknown));
    }
  }
}

bool Assembly::comparing_reads() const {
  const auto has_copies = [](const Segment& segment) { return segment.children.size() > 1; };
  if (std::ranges::any_of(root_.segments, has_copies)) return true;
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
  compare_segments(root_, result);
  for (std::vector<uint32_t>* ranks : {&result.differing, &result.unknown}) {
    std::ranges::sort(*ranks);
    ranks->erase(std::unique(ranks->begin(), ranks->end()), ranks->end());
  }
  return result;
}

std::vector<uint32_t> Assembly::ranks_of(uint64_t element, std::span<const uint32_t> differing) const {
  if (element >= element_count({nullptr, DType::kU8, root_.shape, {}})) return {};
  return ranks_of(root_, element, differing);
}

std::vector<uint32_t> Assembly::ranks_of(const Node& node, uint64_t element,
                                         std::span<const uint32_t> differing) const {
  std::vector<uint32_t> ranks;
  const auto add_same = [&](std::span<const uint32_t> copies) {
    for (const uint32_t rank : copies)
      if (!std::ranges::binary_search(differing, rank)) ranks.push_back(rank);
  };
  if (node.children.empty()) {
    const std::vector<uint32_t> copies = ranks_in(node);
    ranks.push_back(copies.front());
    add_same(std::span(copies).subspan(1));
    return ranks;
  }
  if (node.join.kind != Join::Kind::kConcat) return {};
  // In each block, which is all that has the same index before the dimension, the segments follow one another.
  const auto dim = static_cast<size_t>(node.join.dim);
  uint64_t inner_size = 1;
  for (size_t d = dim + 1; d < node.shape.size(); ++d) inner_size *= static_cast<uint64_t>(node.shape[d]);
  const uint64_t block_size = inner_size * static_cast<uint64_t>(node.shape[dim]);
  if (block_size == 0) return {};
  const uint64_t block = element / block_size;
  uint64_t inner = element % block_size;
  for (const Segment& segment : node.segments) {
    const uint64_t size = inner_size * static_cast<uint64_t>(segment.size);
    if (inner >= size) {
      inner -= size;
      continue;
    }
    for (const size_t i : segment.children) {
      const Node& child = node.children[i];
      const auto length = static_cast<uint64_t>(child.shape[dim]), begin = static_cast<uint64_t>(segment.begin);
      const auto holders = ranks_of(child, (block * length + begin) * inner_size + inner, differing);
      if (i == segment.children.front()) {
        ranks = holders;
      } else {
        add_same(holders);
      }
    }
    break;
  }
  return ranks;
}

}  // namespace ttap
