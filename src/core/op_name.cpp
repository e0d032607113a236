#include "core/op_name.h"

namespace ttap {
namespace {

constexpr std::string_view kBackward = "backward";
constexpr std::string_view kLibraryMark = "::";

}  // namespace

OpName split_op_name(std::string_view name) {
  const size_t mark = name.find(kLibraryMark);
  const size_t colon = mark == std::string_view::npos || mark == 0 ? std::string_view::npos : name.rfind(':', mark - 1);
  if (colon == std::string_view::npos) return {.scope = {}, .backward = false, .op = name};
  OpName parts{.scope = name.substr(0, colon), .backward = false, .op = name.substr(colon + 1)};
  const size_t last = parts.scope.rfind(':');
  const size_t begin = last == std::string_view::npos ? 0 : last + 1;
  if (parts.scope.substr(begin) == kBackward) {
    parts.backward = true;
    parts.scope = parts.scope.substr(0, begin == 0 ? 0 : last);
  }
  return parts;
}

std::string join_op_name(const OpName& parts) {
  std::string name(parts.scope);
  if (!name.empty()) name += ':';
  if (parts.backward) (name += kBackward) += ':';
  return name += parts.op;
}

OperatorParts split_operator(std::string_view op) {
  OperatorParts parts{.library = {}, .name = op, .overload = {}};
  if (const size_t mark = op.find(kLibraryMark); mark != std::string_view::npos) {
    parts.library = op.substr(0, mark);
    parts.name = op.substr(mark + kLibraryMark.size());
  }
  if (const size_t dot = parts.name.find('.'); dot != std::string_view::npos) {
    parts.overload = parts.name.substr(dot + 1);
    parts.name = parts.name.substr(0, dot);
  }
  return parts;
}

}  // namespace ttap
