#include "analyze/diff/match/map_rule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <utility>

namespace ttap {
namespace {

using Operation = MapRule::Operation;

constexpr std::array<std::pair<std::string_view, Operation>, 6> kOperations{{{"drop", Operation::kDrop},
                                                                              {"slice", Operation::kSlice},
                                                                              {"concat", Operation::kConcat},
                                                                              {"transpose", Operation::kTranspose},
                                                                              {"reshape", Operation::kReshape},
                                                                              {"sum", Operation::kSum}}};

Error bad_rule(std::string message, std::string hint) {
  return Error{.code = ErrorCode::kInvalidArgument, .message = std::move(message), .hint = std::move(hint)};
}

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t[("), text.size()));
  return text.substr(0, text.find_last_not_of(" \t])") + 1);
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  constexpr int64_t kMost = int64_t{1} << 48;  // no axis is longer, and sums of these do not wrap
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || std::abs(number) > kMost)
    return std::nullopt;
  return number;
}

std::vector<std::string_view> split_at(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  for (size_t end = 0; end != std::string_view::npos; text.remove_prefix(end == text.npos ? text.size() : end + 1)) {
    end = text.find(mark);
    parts.push_back(trimmed(text.substr(0, end)));
  }
  return parts;
}

// The entries of a list, whether it is one of YAML or a text: [1, 0], '[1, 0]', '1, 0'.
std::vector<std::string_view> entries_of(const RuleField& field) {
  if (!field.is_list) return split_at(trimmed(field.values.front()), ',');
  std::vector<std::string_view> entries;
  for (const std::string& value : field.values) entries.push_back(trimmed(value));
  return entries;
}

Result<std::vector<int64_t>> numbers_of(const RuleField& field, bool* leading = nullptr) {
  std::vector<int64_t> numbers;
  for (const std::string_view entry : entries_of(field)) {
    if (entry == "..." && leading != nullptr && numbers.empty()) {
      *leading = true;
    } else if (const auto number = whole_number(entry)) {
      numbers.push_back(*number);
    } else {
      return bad_rule(fmt::format("'{}' in '{}' is no whole number", entry, field.name),
                      "dims: [0, 2, 1, 3]; dim: -1; shape: [..., 12, 64]");
    }
  }
  return numbers;
}

constexpr const char* kSliceHint =
    "as in Python: '[..., 0:4096]' of the last axis, '[:, ::2]' every second of the second";

}  // namespace

Status check_replacement(const Pattern& pattern, std::string_view replacement) {
  // Only a match shows whether the replacement names groups that are there. One more alternative, empty, matches
  // anywhere; the line break ends a comment of (?x).
  const auto probe = Pattern::compile(pattern.text() + "\n|");
  if (!probe.ok()) return {};
  const auto replaced = probe->replaced("", replacement);
  if (replaced.ok()) return {};
  return bad_rule(fmt::format("the replacement '{}' does not fit the pattern '{}'", replacement, pattern.text()),
                  "$1 is what the first pair of parentheses caught, ${1} the same before a digit, $$ a dollar");
}

Result<MapRule> MapRule::parse(RuleLine line) {
  MapRule rule;
  rule.name_ = line.pattern;
  rule.line_ = line.line;
  const auto* found = std::ranges::find(kOperations, line.pattern, &std::pair<std::string_view, Operation>::first);
  if (found == kOperations.end())
    return bad_rule(fmt::format("unknown operation '{}'", line.pattern),
                    "drop, slice, concat, transpose, reshape, sum; a rule that renames is 'pattern': 'replacement'");
  rule.operation_ = found->second;
  for (const RuleField& field : line.fields) {
    auto status = rule.read_field(field);
    if (!status.ok()) return std::move(status).error();
  }
  auto status = rule.check();
  if (!status.ok()) return std::move(status).error();
  return rule;
}

Status MapRule::read_field(const RuleField& field) {
  if (field.name == "a" || field.name == "b") {
    TTAP_ASSIGN(Pattern pattern, Pattern::compile(field.values.front()));
    (field.name == "a" ? a_ : b_).emplace(std::move(pattern));
  } else if (field.name == "of") {
    of_ = field.values;
  } else if (field.name == "at") {
    TTAP_ASSIGN(at_, parse_slices(field));
  } else if (field.name == "dims") {
    TTAP_ASSIGN(dims_, numbers_of(field));
  } else if (field.name == "shape") {
    TTAP_ASSIGN(shape_, numbers_of(field, &leading_));
  } else if (field.name == "dim") {
    TTAP_ASSIGN(const auto dims, numbers_of(field));
    dim_ = static_cast<int>(dims.front());
  } else {
    return bad_rule(fmt::format("{} has a field '{}', which means nothing", name_, field.name),
                    "the fields are a, b, of, at, dim, dims and shape");
  }
  return {};
}

Status MapRule::check() const {
  if (operation_ == Operation::kDrop) {
    if ((a_ || b_) && of_.empty()) return {};
    return bad_rule("drop says not which keys", "drop: {a: 'PATTERN'} for keys of A, b: for those of B");
  }
  const std::string example = fmt::format("{}: {{a: 'PATTERN', of: 'KEY of B', …}}, or with b: and a KEY of A", name_);
  if (a_.has_value() == b_.has_value())
    return bad_rule(fmt::format("{} needs one pattern: a or b", name_), example);
  for (const std::string& key : of_)
    if (auto fits = check_replacement(a_ ? *a_ : *b_, key); !fits.ok()) return fits;
  const bool several = operation_ == Operation::kConcat || operation_ == Operation::kSum;
  if (several ? of_.size() < 2 : of_.size() != 1)
    return bad_rule(fmt::format("{} is made of {}, and `of` names {}", name_, several ? "two keys or more" : "one key",
                                of_.size()),
                    several ? fmt::format("{}: {{a: 'PATTERN', of: ['KEY', 'KEY'], …}}", name_) : example);
  const auto lacks = [&](std::string_view field, std::string_view hint) {
    return bad_rule(fmt::format("{} needs `{}`", name_, field), std::string(hint));
  };
  if (operation_ == Operation::kSlice && at_.empty()) return lacks("at", kSliceHint);
  if (operation_ == Operation::kConcat && !dim_)
    return lacks("dim", "dim: -1 puts them side by side along the last axis");
  if (operation_ == Operation::kReshape && shape_.empty()) return lacks("shape", "shape: [..., 12, 64]");
  if (dim_ && operation_ != Operation::kConcat)
    return bad_rule(fmt::format("{} has no use for `dim`", name_), "dims: [1, 0] is the order of the axes");
  return {};
}

Result<std::vector<MapRule::Slice>> MapRule::parse_slices(const RuleField& field) {
  std::vector<Slice> slices;
  const auto bad = [&](std::string_view entry) {
    return bad_rule(fmt::format("'{}' in `at` is no slice", entry), kSliceHint);
  };
  for (const std::string_view entry : entries_of(field)) {
    Slice& slice = slices.emplace_back();
    if (entry == "...") {
      slice.ellipsis = true;
      if (std::ranges::count(slices, true, &Slice::ellipsis) > 1) return bad(entry);
      continue;
    }
    const auto parts = split_at(entry, ':');
    if (parts.size() > 3) return bad(entry);
    std::array<std::optional<int64_t>, 3> numbers;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].empty() && parts.size() > 1) continue;
      numbers[i] = whole_number(parts[i]);
      if (!numbers[i]) return bad(entry);
    }
    slice.begin = numbers[0];
    slice.end = numbers[1];
    slice.step = numbers[2].value_or(1);
    if (slice.step < 1) return bad(entry);
    if (parts.size() == 1 && *slice.begin != -1) slice.end = *slice.begin + 1;
  }
  return slices;
}

std::string MapRule::text() const {
  std::string patterns = a_ ? a_->text() : b_->text();
  if (a_ && b_) patterns += "', '" + b_->text();
  return fmt::format("line {}: {} '{}'", line_, name_, patterns);
}

const Pattern* MapRule::pattern(bool of_a) const {
  const std::optional<Pattern>& pattern = of_a ? a_ : b_;
  return pattern ? &*pattern : nullptr;
}

std::vector<std::string> MapRule::keys_for(std::string_view key) const {
  std::vector<std::string> keys;
  for (const std::string& of : of_)
    if (auto replaced = (a_ ? *a_ : *b_).replaced(key, of); replaced.ok()) keys.push_back(std::move(*replaced));
  return keys;
}

MadeValue::Join MapRule::join() const {
  if (operation_ == Operation::kConcat) return MadeValue::Join::kConcat;
  return operation_ == Operation::kSum ? MadeValue::Join::kSum : MadeValue::Join::kNone;
}

// One slice for each axis.
Result<std::vector<MapRule::Slice>> MapRule::slices_for(const std::vector<int64_t>& shape) const {
  std::vector<Slice> slices;
  const bool has_ellipsis = std::ranges::count(at_, true, &Slice::ellipsis) > 0;
  const size_t given = at_.size() - (has_ellipsis ? 1 : 0);
  if (given > shape.size())
    return bad_rule(fmt::format("`at` slices {} axes of shape [{}]", given, fmt::join(shape, ", ")), kSliceHint);
  for (const Slice& slice : at_) {
    if (!slice.ellipsis) {
      slices.push_back(slice);
      continue;
    }
    slices.resize(slices.size() + shape.size() - given);
  }
  slices.resize(shape.size());
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    Slice& slice = slices[axis];
    if (slice.is_whole()) continue;
    const int64_t size = shape[axis];
    const auto from_front = [&](int64_t at) { return at < 0 ? at + size : at; };
    slice.begin = from_front(slice.begin.value_or(0));
    slice.end = from_front(slice.end.value_or(size));
    if (*slice.begin < 0 || *slice.end > size || *slice.begin >= *slice.end)
      return bad_rule(fmt::format("the slice {}:{} is beyond axis {} of shape [{}]", *slice.begin, *slice.end, axis,
                                  fmt::join(shape, ", ")),
                      "the pattern may find too much: '$' at its end keeps @in/0 and @param/weight out");
  }
  return slices;
}

Result<std::vector<int64_t>> MapRule::shape_for(const std::vector<int64_t>& shape) const {
  std::vector<int64_t> made = shape_;
  uint64_t known = 1, left = element_count({.shape = shape});
  for (const int64_t size : made)
    if (size > 0) known *= static_cast<uint64_t>(size);
  if (leading_) {
    size_t kept = shape.size();
    uint64_t behind = 1;
    const bool open = std::ranges::count(made, -1) > 0;
    // With -1 only the last axis is split, else as many as these sizes come to.
    while (kept > 0 && (open ? kept == shape.size() : behind < known)) behind *= static_cast<uint64_t>(shape[--kept]);
    left = behind;
    made.insert(made.begin(), shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(kept));
  }
  const bool open = std::ranges::count(shape_, -1) == 1;
  if (known == 0 || (open ? left % known != 0 : left != known))
    return bad_rule(fmt::format("`shape` cannot be that of a tensor of shape [{}]", fmt::join(shape, ", ")),
                    "'...' keeps the axes in front, -1 is what is left");
  for (int64_t& size : made)
    if (size == -1) size = static_cast<int64_t>(left / known);
  return made;
}

// The axes in their new order.
Result<std::vector<int64_t>> MapRule::order_of(size_t axes) const {
  std::vector<int64_t> order(axes);
  for (size_t i = 0; i < axes; ++i) order[i] = static_cast<int64_t>(i);
  if (dims_.empty()) {
    if (operation_ == Operation::kTranspose && axes >= 2) std::swap(order[axes - 2], order[axes - 1]);
    return order;
  }
  std::vector<int64_t> dims = dims_;
  for (int64_t& dim : dims)
    if (dim < 0) dim += static_cast<int64_t>(axes);
  std::vector<int64_t> sorted = dims;
  std::ranges::sort(sorted);
  if (sorted != order)
    return bad_rule(fmt::format("`dims` [{}] is no order of {} axes", fmt::join(dims_, ", "), axes),
                    "dims: [1, 0] for a matrix, [0, 2, 1, 3] for four axes; each once");
  return dims;
}

Result<MapRule::Steps> MapRule::steps_for(const std::vector<int64_t>& given,
                                          const std::optional<RecordedRows>& rows) const {
  Steps made;
  std::vector<int64_t> shape = given;
  // The axes of tokens became one, the first, and the others lie side by side: with `shape` as they are to be.
  const bool by_rows = rows && shape_.empty();
  if (!shape_.empty()) {
    TTAP_ASSIGN(shape, shape_for(shape));
    if (shape != given) made.steps.push_back({.kind = ValueStep::Kind::kReshape, .numbers = shape});
  } else if (by_rows) {
    shape = rows->shape;
  }
  std::vector<int64_t> place(shape.size());  // of each axis, in the tensor that is here
  int64_t behind = 1;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    place[axis] = !by_rows ? static_cast<int64_t>(axis) : rows->of_tokens[axis] ? 0 : behind++;
  if (by_rows && behind != 2) {
    std::vector<int64_t> sizes = {given.front()};
    for (size_t axis = 0; axis < shape.size(); ++axis)
      if (!rows->of_tokens[axis]) sizes.push_back(shape[axis]);
    if (sizes != given) made.steps.push_back({.kind = ValueStep::Kind::kReshape, .numbers = std::move(sizes)});
  }
  TTAP_ASSIGN(const std::vector<Slice> slices, slices_for(shape));
  for (size_t axis = 0; axis < slices.size(); ++axis) {
    const Slice& slice = slices[axis];
    if (slice.is_whole() || (*slice.begin == 0 && *slice.end == shape[axis] && slice.step == 1)) continue;
    if (by_rows && rows->of_tokens[axis])
      return bad_rule(fmt::format("axis {} is that of the tokens, and each token is compared by itself", axis),
                      "--by-pass compares whole tensors");
    ValueStep step{.axis = static_cast<int>(place[axis]) - static_cast<int>(by_rows ? behind : shape.size())};
    for (int64_t at = *slice.begin; at < *slice.end; at += slice.step) step.numbers.push_back(at);
    made.steps.push_back(std::move(step));
  }
  TTAP_ASSIGN(const std::vector<int64_t> order, order_of(shape.size()));
  ValueStep turned{.kind = ValueStep::Kind::kPermute};
  if (by_rows) turned.numbers.push_back(0);
  for (const int64_t axis : order)
    if (!by_rows || !rows->of_tokens[static_cast<size_t>(axis)])
      turned.numbers.push_back(place[static_cast<size_t>(axis)]);
  if (!std::ranges::is_sorted(turned.numbers)) made.steps.push_back(turned);
  if (!dim_) return made;
  const int64_t dim = *dim_ < 0 ? *dim_ + static_cast<int64_t>(shape.size()) : *dim_;
  if (dim < 0 || dim >= static_cast<int64_t>(shape.size()))
    return bad_rule(fmt::format("`dim` {} is no axis of shape [{}]", *dim_, fmt::join(shape, ", ")), "dim: -1");
  const int64_t joined = place[static_cast<size_t>(order[static_cast<size_t>(dim)])];
  if (by_rows && rows->of_tokens[static_cast<size_t>(order[static_cast<size_t>(dim)])])
    return bad_rule(fmt::format("axis {} is that of the tokens, and each token is compared by itself", *dim_),
                    "--by-pass compares whole tensors");
  made.axis = static_cast<int>(std::ranges::find(turned.numbers, joined) - turned.numbers.begin()) -
              static_cast<int>(turned.numbers.size());
  return made;
}

}  // namespace ttap
