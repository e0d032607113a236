#include "torch/tables/arguments.h"

#include <ATen/core/Formatting.h>
#include <ATen/core/jit_type.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>

#include "core/mix64.h"

namespace ttap::torch_source {
namespace {

using c10::IValue;
using c10::TypeKind;

constexpr size_t kLongestText = 16 << 10;  // of a string or list

// ---- signature ----

uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15;
  return hash ^ hash >> 29;
}

uint64_t text_hash(std::string_view text) { return std::hash<std::string_view>{}(text); }

std::string symbolic_text(const c10::SymNode& node) {
  std::string text;
  for (const char c : node->str()) (text += c) += c == '%' ? "%" : "";
  return text;
}

std::string symbolic_text(const IValue& value) {
  if (value.isSymInt()) return symbolic_text(value.toSymInt().toSymNode());
  if (value.isSymFloat()) return symbolic_text(value.toSymFloat().toSymNodeImpl());
  return symbolic_text(value.toSymBool().toSymNodeImpl());
}
bool is_symbolic(const IValue& value) { return value.isSymInt() || value.isSymFloat() || value.isSymBool(); }

uint64_t number_bits(const at::Tensor& tensor) {
  uint64_t bits[2] = {0, 0};
  std::memcpy(bits, tensor.const_data_ptr(), std::min<size_t>(tensor.itemsize(), sizeof bits));
  return mixed(mixed(static_cast<uint64_t>(tensor.scalar_type()), bits[0]), bits[1]);
}

uint64_t value_hash(uint64_t hash, const IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) return mixed(hash, 3);
    return is_number(tensor) ? mixed(hash, number_bits(tensor)) : mixed(hash, 2);
  }
  if (value.isNone()) return mixed(hash, 4);
  if (value.isInt()) return mixed(mixed(hash, 5), static_cast<uint64_t>(value.toInt()));
  if (value.isDouble()) return mixed(mixed(hash, 6), std::bit_cast<uint64_t>(value.toDouble()));
  if (value.isBool()) return mixed(hash, value.toBool() ? 7 : 8);
  if (value.isIntList()) {
    hash = mixed(hash, 9);
    for (const int64_t number : value.toIntList()) hash = mixed(hash, static_cast<uint64_t>(number));
    return mixed(hash, 10);
  }
  if (value.isTensorList()) return mixed(mixed(hash, 11), value.toTensorList().size());
  if (value.isString()) return mixed(mixed(hash, 12), text_hash(value.toStringView()));
  if (value.isDevice()) {
    const c10::Device device = value.toDevice();
    return mixed(mixed(hash, 13), static_cast<uint64_t>(device.type()) << 8 | static_cast<uint8_t>(device.index()));
  }
  if (value.isComplexDouble()) {
    const auto number = value.toComplexDouble();
    return mixed(mixed(hash, std::bit_cast<uint64_t>(number.real())), std::bit_cast<uint64_t>(number.imag()));
  }
  if (value.isDoubleList()) {
    hash = mixed(hash, 14);
    for (const double number : value.toDoubleList()) hash = mixed(hash, std::bit_cast<uint64_t>(number));
    return mixed(hash, 15);
  }
  if (value.isBoolList()) {
    hash = mixed(hash, 16);
    for (const bool flag : value.toBoolList()) hash = mixed(hash, flag ? 1 : 0);
    return mixed(hash, 17);
  }
  if (value.isList()) {
    hash = mixed(hash, 18);
    for (const IValue& item : value.toListRef()) hash = value_hash(hash, item);
    return mixed(hash, 19);
  }
  if (value.isTuple()) {
    hash = mixed(hash, 20);
    for (const IValue& item : value.toTupleRef().elements()) hash = value_hash(hash, item);
    return mixed(hash, 21);
  }
  if (is_symbolic(value)) return mixed(mixed(hash, 22), text_hash(symbolic_text(value)));
  if (value.isCustomClass() || value.isObject()) hash = mixed(hash, text_hash(reduction_text(value)));
  return mixed(mixed(hash, 23), text_hash(value.type()->str()));
}

// ---- text ----

std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text.substr(0, kLongestText)) {
    if (c == '%') out += '%';
    if (c == '\\' || c == '\'') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + (text.size() > kLongestText ? "…'" : "'");
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string wrapped_text(const at::Tensor& tensor) {
  const void* data = tensor.const_data_ptr();
  switch (tensor.scalar_type()) {
    case c10::ScalarType::Double: return number_text(*static_cast<const double*>(data));
    case c10::ScalarType::Float: return number_text(*static_cast<const float*>(data));
    case c10::ScalarType::Long: return fmt::format("{}", *static_cast<const int64_t*>(data));
    case c10::ScalarType::Bool: return *static_cast<const bool*>(data) ? "True" : "False";
    case c10::ScalarType::ComplexDouble: {
      const auto* parts = static_cast<const double*>(data);
      return fmt::format("({}{:+}j)", parts[0], parts[1]);
    }
    default: return fmt::format("<number of {}>", c10::toString(tensor.scalar_type()));
  }
}

// Writes values one after the other, and counts the tensors among them.
class Writer {
 public:
  explicit Writer(size_t first_use) : use_(first_use) {}

  std::string text(const IValue& value, TypeKind kind) {
    if (value.isTensor()) {
      const at::Tensor& tensor = value.toTensor();
      if (!tensor.defined()) return "None";
      return is_number(tensor) ? wrapped_text(tensor) : fmt::format("%{}", use_++);
    }
    if (value.isNone()) return "None";
    if (value.isBool()) return value.toBool() ? "True" : "False";
    if (value.isInt()) return enum_text(value.toInt(), kind);
    if (value.isDouble()) return number_text(value.toDouble());
    if (value.isString()) return quoted(value.toStringView());
    if (value.isDevice()) return value.toDevice().str();
    if (value.isComplexDouble())
      return fmt::format("({}{:+}j)", value.toComplexDouble().real(), value.toComplexDouble().imag());
    if (is_symbolic(value)) return symbolic_text(value);
    if (value.isTuple()) return list(value.toTupleRef().elements(), "(", ")");
    if (value.isIntList()) return numbers(value.toIntList(), [](int64_t n) { return fmt::format("{}", n); });
    if (value.isDoubleList()) return numbers(value.toDoubleList(), [](double n) { return number_text(n); });
    if (value.isBoolList()) return numbers(value.toBoolList(), [](bool b) { return b ? "True" : "False"; });
    if (value.isTensorList()) return tensors(value);
    if (value.isList()) return list(value.toListRef(), "[", "]");
    if (value.isGenerator()) return "<generator>";
    if (value.isCustomClass() || value.isObject()) {
      const std::string reduction = reduction_text(value);
      return reduction.empty() ? fmt::format("<{}>", value.type()->str()) : reduction;
    }
    return fmt::format("<{}>", value.tagKind());
  }

 private:
  static std::string enum_text(int64_t value, TypeKind kind) {
    const std::string name = torch_name(value, kind);
    return name.empty() ? fmt::format("{}", value) : "torch." + name;
  }

  template <class List, class Text>
  static std::string numbers(const List& values, const Text& text) {
    std::string out = "[";
    for (const auto value : values) {
      if (out.size() > 1) out += ", ";
      if (out.size() > kLongestText) return out + "…]";
      out += text(value);
    }
    return out + "]";
  }

  std::string tensors(const IValue& value) {
    std::string out = "[";
    const c10::List<at::Tensor> list = value.toTensorList();
    for (size_t i = 0; i < list.size(); ++i) {
      const at::Tensor tensor = list.get(i);
      if (out.size() > 1) out += ", ";
      out += tensor.defined() ? fmt::format("%{}", use_++) : "None";
    }
    return out + "]";
  }

  template <class Values>
  std::string list(const Values& values, std::string_view open, std::string_view close) {
    std::string out(open);
    for (const IValue& value : values) {
      if (out.size() > open.size()) out += ", ";
      out += text(value, TypeKind::AnyType);
    }
    return out += close;
  }

  size_t use_;
};

bool is_default(const c10::Argument& argument, const IValue& value) {
  if (value.isTensor() || value.isTensorList() || value.isList()) {
    const bool nothing = value.isTensor() && !value.toTensor().defined();
    if (!argument.default_value() || !argument.default_value()->isNone()) {
      // An empty list, or [1, 1], is compared as text.
      if (value.isIntList() && argument.default_value() && argument.default_value()->isIntList())
        return value.toIntVector() == argument.default_value()->toIntVector();
      return false;
    }
    return nothing;
  }
  if (!argument.default_value()) return false;
  const IValue& usual = *argument.default_value();
  if (usual.isNone() || value.isNone()) return usual.isNone() && value.isNone();
  if (usual.isInt() && value.isDouble()) return static_cast<double>(usual.toInt()) == value.toDouble();
  if (usual.isDouble() && value.isInt()) return static_cast<double>(value.toInt()) == usual.toDouble();
  if (usual.tagKind() != value.tagKind()) return false;
  return usual == value;
}

// A list, or a tuple, that may hold tensors or lists of them.
bool is_mixed_list(const IValue& value) {
  return value.isTuple() || (value.isList() && !value.isTensorList() && !value.isIntList() && !value.isDoubleList() &&
                             !value.isBoolList());
}
template <class Work>
void for_each_item(const IValue& value, const Work& work) {
  if (value.isTuple()) {
    for (const IValue& each : value.toTupleRef().elements()) work(each);
  } else {
    for (const IValue& each : value.toListRef()) work(each);
  }
}

size_t tensors_in(const IValue& value) {
  if (value.isTensor()) return 1;
  if (value.isTensorList()) return value.toTensorList().size();
  if (!is_mixed_list(value)) return 0;
  size_t count = 0;
  for_each_item(value, [&](const IValue& each) { count += tensors_in(each); });
  return count;
}

// Lists in a list are counted through, as if they were one.
template <class Add>
void add_tensors(const IValue& value, int32_t& item, const Add& add) {
  if (value.isTensorList()) {
    const c10::List<at::Tensor> list = value.toTensorList();
    for (size_t i = 0; i < list.size(); ++i) add(list.get(i), item++);
  } else if (is_mixed_list(value)) {
    for_each_item(value, [&](const IValue& each) {
      if (each.isTensor()) {
        add(each.toTensor(), item++);
      } else if (each.isTensorList() || is_mixed_list(each)) {
        add_tensors(each, item, add);
      } else {
        ++item;
      }
    });
  }
}

}  // namespace

std::string torch_name(int64_t value, TypeKind kind) {
  if (kind == TypeKind::ScalarTypeType)
    return std::string(c10::getDtypeNames(static_cast<c10::ScalarType>(value)).first);
  if (kind == TypeKind::LayoutType) {
    switch (static_cast<c10::Layout>(value)) {
      case c10::Layout::Strided: return "strided";
      case c10::Layout::Sparse: return "sparse_coo";
      case c10::Layout::SparseCsr: return "sparse_csr";
      case c10::Layout::SparseCsc: return "sparse_csc";
      case c10::Layout::SparseBsr: return "sparse_bsr";
      case c10::Layout::SparseBsc: return "sparse_bsc";
      case c10::Layout::Mkldnn: return "_mkldnn";
      case c10::Layout::Jagged: return "jagged";
      default: break;
    }
  }
  if (kind == TypeKind::MemoryFormatType) {
    switch (static_cast<c10::MemoryFormat>(value)) {
      case c10::MemoryFormat::Contiguous: return "contiguous_format";
      case c10::MemoryFormat::Preserve: return "preserve_format";
      case c10::MemoryFormat::ChannelsLast: return "channels_last";
      case c10::MemoryFormat::ChannelsLast3d: return "channels_last_3d";
      default: break;
    }
  }
  return {};
}

TypeKind kind_of(const c10::Argument& argument) {
  c10::TypePtr type = argument.real_type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  return type->kind();
}

void collect_tensors(c10::ArrayRef<const IValue> values, std::vector<TensorPlace>& places,
                     std::vector<at::Tensor>& held) {
  // `held` must not move what is pointed to, so it has its size before.
  size_t in_lists = 0;
  for (const IValue& value : values)
    if (!value.isTensor()) in_lists += tensors_in(value);
  if (in_lists > 0) held.reserve(held.size() + in_lists);
  for (uint32_t i = 0; i < values.size(); ++i) {
    const IValue& value = values[i];
    if (value.isTensor()) {
      if (value.toTensor().defined() && !is_number(value.toTensor())) places.push_back({&value.toTensor(), i, -1});
      continue;
    }
    int32_t item = 0;
    add_tensors(value, item, [&](const at::Tensor& tensor, int32_t place) {
      if (!tensor.defined()) return;
      held.push_back(tensor);
      places.push_back({&held.back(), i, place});
    });
  }
}

uint64_t signature(c10::ArrayRef<const IValue> values) {
  uint64_t hash = 0x9E3779B97F4A7C15;
  for (const IValue& value : values) hash = value_hash(hash, value);
  return mix64(hash);
}

std::string arguments_text(const Operator& op, c10::ArrayRef<const IValue> values) {
  const auto& arguments = op.schema->arguments();
  const size_t count = std::min(arguments.size(), values.size());
  size_t positional = 0;
  while (positional < count && !arguments[positional].kwarg_only()) ++positional;
  // Trailing arguments that equal their defaults would not be written.
  size_t shown = positional;
  while (shown > 0 && is_default(arguments[shown - 1], values[shown - 1])) --shown;
  std::string out;
  Writer writer(0);
  for (size_t i = 0; i < count; ++i) {
    const bool by_name = i >= positional;
    if (by_name ? is_default(arguments[i], values[i]) : i >= shown) continue;
    if (!out.empty()) out += ", ";
    if (by_name) out += arguments[i].name() + "=";
    out += writer.text(values[i], kind_of(arguments[i]));
  }
  return out;
}

std::string results_text(const Operator& op, c10::ArrayRef<const IValue> values, size_t first_use) {
  Writer writer(first_use);
  std::string out;
  const auto& returns = op.schema->returns();
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ", ";
    out += writer.text(values[i], i < returns.size() ? kind_of(returns[i]) : TypeKind::AnyType);
  }
  return values.size() > 1 ? "(" + out + ")" : out;
}

}  // namespace ttap::torch_source
