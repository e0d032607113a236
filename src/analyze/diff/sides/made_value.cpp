#include "analyze/diff/sides/made_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "analyze/diff/sides/joined_bytes.h"

namespace ttap {
namespace {

using Kind = ValueStep::Kind;
using Join = MadeValue::Join;
using Shape = std::vector<int64_t>;

Error misfit(std::string message) { return Error{.code = ErrorCode::kInvalidArgument, .message = std::move(message)}; }

std::optional<size_t> axis_in(const Shape& shape, int axis) {
  const int from_front = axis < 0 ? axis + static_cast<int>(shape.size()) : axis;
  return from_front >= 0 && from_front < static_cast<int>(shape.size()) ? std::optional<size_t>(from_front)
                                                                        : std::nullopt;
}

Result<Shape> shape_after_step(Shape shape, const ValueStep& step) {
  const auto text = [&] { return fmt::format("[{}]", fmt::join(shape, ", ")); };
  if (step.kind == Kind::kScale) return shape;
  if (step.kind == Kind::kReshape) {
    if (element_count({.shape = shape}) != element_count({.shape = step.numbers}))
      return misfit(fmt::format("[{}] has not as many elements as {}", fmt::join(step.numbers, ", "), text()));
    return step.numbers;
  }
  if (step.kind == Kind::kPermute) {
    std::vector<int64_t> sorted = step.numbers;
    std::ranges::sort(sorted);
    Shape turned;
    for (size_t i = 0; i < sorted.size() && sorted.size() == shape.size(); ++i) {
      if (sorted[i] != static_cast<int64_t>(i)) break;
      turned.push_back(shape[static_cast<size_t>(step.numbers[i])]);
    }
    if (turned.size() != shape.size())
      return misfit(fmt::format("[{}] is no order of the axes of {}", fmt::join(step.numbers, ", "), text()));
    return turned;
  }
  const auto axis = axis_in(shape, step.axis);
  if (!axis) return misfit(fmt::format("{} has no axis {}", text(), step.axis));
  for (const int64_t entry : step.numbers)
    if (entry < 0 || entry >= shape[*axis])
      return misfit(fmt::format("entry {} is beyond axis {} of {}", entry, step.axis, text()));
  shape[*axis] = static_cast<int64_t>(step.numbers.size());
  return shape;
}

// In C order, with bytes of its own.
SideBytes packed(const SideBytes& bytes) {
  return concatenated({&bytes, 1}, Shape(bytes.view.shape.begin(), bytes.view.shape.end()), 0);
}

// What the bytes are, in this shape and with these strides; they stay where they are.
void see_as(SideBytes& bytes, Shape shape, std::vector<int64_t> strides, int64_t first = 0) {
  bytes.view.data =
      static_cast<const std::byte*>(bytes.view.data) + first * static_cast<int64_t>(size_of(bytes.view.dtype));
  bytes.shape = std::move(shape);
  bytes.strides = std::move(strides);
  bytes.view.shape = bytes.shape;
  bytes.view.strides = bytes.strides;
}

SideBytes gathered(const SideBytes& bytes, size_t axis, const std::vector<int64_t>& entries, Shape shape) {
  std::vector<SideBytes> parts;
  for (const int64_t entry : entries) parts.push_back(narrowed(bytes.view, axis, entry, 1));
  return concatenated(parts, std::move(shape), axis);
}

// The distance of entries that lie as far from each other; 0 where they do not.
int64_t step_of(const std::vector<int64_t>& entries) {
  if (entries.size() < 2) return 1;
  const int64_t step = entries[1] - entries[0];
  for (size_t i = 1; i < entries.size(); ++i)
    if (entries[i] - entries[i - 1] != step) return 0;
  return std::max<int64_t>(step, 0);
}

Status apply(const ValueStep& step, SideBytes& bytes) {
  const Shape before(bytes.view.shape.begin(), bytes.view.shape.end());
  TTAP_ASSIGN(Shape shape, shape_after_step(before, step));
  if (step.kind == Kind::kReshape) {
    if (!is_contiguous(bytes.view)) bytes = packed(bytes);
    see_as(bytes, std::move(shape), {});
    return {};
  }
  if (bytes.view.dtype == DType::kF4E2M1FNx2)
    return Error{.code = ErrorCode::kUnsupported, .message = "packed fp4 values cannot be taken apart"};
  std::vector<int64_t> strides(bytes.view.strides.begin(), bytes.view.strides.end());
  if (strides.empty()) strides = contiguous_strides(bytes.view.shape);
  switch (step.kind) {
    case Kind::kScale:
      if (!can_combine(bytes.view.dtype, Combine::kProduct))
        return Error{.code = ErrorCode::kUnsupported, .message = "values of this dtype cannot be scaled"};
      bytes = scaled(bytes, step.factor);
      break;
    case Kind::kPermute: {
      std::vector<int64_t> turned;
      for (const int64_t axis : step.numbers) turned.push_back(strides[static_cast<size_t>(axis)]);
      see_as(bytes, std::move(shape), std::move(turned));
      break;
    }
    case Kind::kTake: {
      const size_t axis = *axis_in(before, step.axis);
      if (const int64_t distance = step_of(step.numbers); distance > 0 && !step.numbers.empty()) {
        const int64_t first = step.numbers.front() * strides[axis];
        strides[axis] *= distance;
        see_as(bytes, std::move(shape), std::move(strides), first);
      } else {
        bytes = gathered(bytes, axis, step.numbers, std::move(shape));
      }
      break;
    }
    case Kind::kReshape: break;
  }
  return {};
}

Result<SideBytes> read_part(const Side& side, const MadeValue::Part& part, const uint32_t* rank) {
  TTAP_ASSIGN(SideBytes bytes, rank != nullptr ? side.read_replica(part.tensor, *rank) : side.read(part.tensor));
  for (const ValueStep& step : part.steps) TTAP_TRY(apply(step, bytes));
  if (!part.steps.empty() && !is_contiguous(bytes.view)) bytes = packed(bytes);
  return bytes;
}

Result<Shape> joined_shape(const std::vector<Shape>& shapes, const MadeValue& made) {
  Shape whole = shapes.front();
  const auto axis = axis_in(whole, made.axis);
  if (made.join == Join::kConcat && !axis)
    return misfit(fmt::format("[{}] has no axis {}", fmt::join(whole, ", "), made.axis));
  for (size_t i = 1; i < shapes.size(); ++i) {
    Shape rest = shapes[i];
    if (made.join == Join::kConcat && rest.size() == whole.size()) {
      const int64_t more = rest[*axis];
      rest[*axis] = whole[*axis];
      if (rest == whole) {
        whole[*axis] += more;
        continue;
      }
    } else if (rest == whole) {
      continue;
    }
    return misfit(fmt::format("[{}] and [{}] do not fit each other", fmt::join(shapes.front(), ", "),
                              fmt::join(shapes[i], ", ")));
  }
  return whole;
}

// What an element was before a step.
uint64_t element_before(const ValueStep& step, const Shape& before, const Shape& after, uint64_t element) {
  if (step.kind == Kind::kReshape || step.kind == Kind::kScale) return element;
  std::vector<uint64_t> place(after.size());
  for (size_t d = after.size(); d-- > 0;) {
    place[d] = element % static_cast<uint64_t>(after[d]);
    element /= static_cast<uint64_t>(after[d]);
  }
  if (step.kind == Kind::kTake) {
    uint64_t& entry = place[*axis_in(before, step.axis)];
    entry = static_cast<uint64_t>(step.numbers[entry]);
  } else {
    std::vector<uint64_t> turned(place.size());
    for (size_t i = 0; i < place.size(); ++i) turned[static_cast<size_t>(step.numbers[i])] = place[i];
    place = std::move(turned);
  }
  uint64_t found = 0;
  for (size_t d = 0; d < before.size(); ++d) found = found * static_cast<uint64_t>(before[d]) + place[d];
  return found;
}

Result<uint64_t> element_of_part(const Side& side, const MadeValue::Part& part, uint64_t element) {
  const TensorRecord record = side.tensor(part.tensor);
  std::vector<Shape> shapes = {Shape(record.shape.begin(), record.shape.end())};
  for (const ValueStep& step : part.steps) {
    TTAP_ASSIGN(Shape next, shape_after_step(shapes.back(), step));
    shapes.push_back(std::move(next));
  }
  for (size_t i = part.steps.size(); i-- > 0;)
    element = element_before(part.steps[i], shapes[i], shapes[i + 1], element);
  return element;
}

Result<Shape> shape_of_part(const Side& side, const MadeValue::Part& part) {
  const TensorRecord record = side.tensor(part.tensor);
  return shape_after({record.shape.begin(), record.shape.end()}, part.steps);
}

std::string entries_text(const std::vector<int64_t>& entries) {
  if (entries.size() == 1) return fmt::format("{}:{}", entries.front(), entries.front() + 1);
  const int64_t step = step_of(entries);
  if (entries.empty() || step == 0) return fmt::format("{} entries in another order", entries.size());
  return fmt::format("{}:{}{}", entries.front(), entries.back() + 1, step == 1 ? "" : fmt::format(":{}", step));
}

std::string part_text(const Side& side, const MadeValue::Part& part) {
  const TensorRecord record = side.tensor(part.tensor);
  std::string text = to_string(record.key());
  Shape shape(record.shape.begin(), record.shape.end());
  for (const ValueStep& step : part.steps) {
    const auto axis = axis_in(shape, step.axis);
    switch (step.kind) {
      case Kind::kTake:
        text += axis && *axis + 1 == shape.size() && *axis > 0 ? "[..., " : "[";
        for (size_t d = 0; axis && *axis + 1 < shape.size() && d < *axis; ++d) text += ":, ";
        text += entries_text(step.numbers) + "]";
        break;
      case Kind::kPermute: text += fmt::format(".permute({})", fmt::join(step.numbers, ", ")); break;
      case Kind::kReshape: text += fmt::format(".reshape({})", fmt::join(step.numbers, ", ")); break;
      case Kind::kScale: text += fmt::format(" * {:.6g}", step.factor); break;
    }
    if (auto next = shape_after_step(shape, step); next.ok()) shape = std::move(next).value();
  }
  return text;
}

}  // namespace

Result<Shape> shape_after(Shape shape, const std::vector<ValueStep>& steps) {
  for (const ValueStep& step : steps) {
    TTAP_ASSIGN(shape, shape_after_step(std::move(shape), step));
  }
  return shape;
}

Result<Shape> shape_of_made(const Side& side, const MadeValue& made) {
  std::vector<Shape> shapes;
  for (const MadeValue::Part& part : made.parts) {
    TTAP_ASSIGN(Shape shape, shape_of_part(side, part));
    shapes.push_back(std::move(shape));
  }
  return joined_shape(shapes, made);
}

Result<SideBytes> read_made(const Side& side, uint32_t tensor, const MadeValue* made, const uint32_t* rank) {
  if (made == nullptr) return read_part(side, {.tensor = tensor}, rank);
  std::vector<SideBytes> parts;
  std::vector<Shape> shapes;
  for (const MadeValue::Part& part : made->parts) {
    TTAP_ASSIGN(SideBytes bytes, read_part(side, part, rank));
    shapes.emplace_back(bytes.view.shape.begin(), bytes.view.shape.end());
    parts.push_back(std::move(bytes));
  }
  if (made->join == Join::kNone) return std::move(parts.front());
  TTAP_ASSIGN(Shape whole, joined_shape(shapes, *made));
  const DType dtype = parts.front().view.dtype;
  const Combine how = made->join == Join::kProduct ? Combine::kProduct : Combine::kSum;
  if (std::ranges::any_of(parts, [&](const SideBytes& part) { return part.view.dtype != dtype; }) ||
      (made->join != Join::kConcat && !can_combine(dtype, how)))
    return Error{.code = ErrorCode::kUnsupported, .message = "tensors of these dtypes cannot be combined"};
  if (made->join == Join::kConcat) {
    const size_t axis = *axis_in(whole, made->axis);
    return concatenated(parts, std::move(whole), axis);
  }
  return combined(parts, std::move(whole), how);
}

std::vector<std::pair<uint32_t, uint64_t>> sources_of(const Side& side, uint32_t tensor, const MadeValue* made,
                                                      uint64_t element) {
  if (made == nullptr) return {{tensor, element}};
  std::vector<std::pair<uint32_t, uint64_t>> found;
  const auto add = [&](const MadeValue::Part& part, uint64_t of_part) {
    if (const auto source = element_of_part(side, part, of_part); source.ok()) found.emplace_back(part.tensor, *source);
  };
  if (made->join != Join::kConcat) {
    for (const MadeValue::Part& part : made->parts) add(part, element);
    return found;
  }
  const auto whole = shape_of_made(side, *made);
  if (!whole.ok() || element_count({.shape = *whole}) == 0) return found;
  const size_t axis = *axis_in(*whole, made->axis);
  uint64_t inner = 1;
  for (size_t d = axis + 1; d < whole->size(); ++d) inner *= static_cast<uint64_t>((*whole)[d]);
  const auto length = static_cast<uint64_t>((*whole)[axis]);
  const uint64_t outer = element / inner / length, last = element % inner;
  uint64_t entry = element / inner % length;
  for (const MadeValue::Part& part : made->parts) {
    const auto shape = shape_of_part(side, part);
    if (!shape.ok()) return found;
    const auto size = static_cast<uint64_t>((*shape)[axis]);
    if (entry < size) {
      add(part, (outer * size + entry) * inner + last);
      return found;
    }
    entry -= size;
  }
  return found;
}

bool has_bytes(const Side& side, const MadeValue& made) {
  return std::ranges::all_of(made.parts, [&](const auto& part) { return side.tensor(part.tensor).has_bytes; });
}

std::string made_text(const Side& side, const MadeValue& made) {
  std::vector<std::string> parts;
  for (const MadeValue::Part& part : made.parts) parts.push_back(part_text(side, part));
  switch (made.join) {
    case Join::kConcat: return fmt::format("cat({}, dim={})", fmt::join(parts, ", "), made.axis);
    case Join::kSum: return fmt::format("{}", fmt::join(parts, " + "));
    case Join::kProduct: return fmt::format("{}", fmt::join(parts, " * "));
    case Join::kNone: break;
  }
  return parts.front();
}

}  // namespace ttap
