#include "store/foreign/pickle_machine.h"

#include <fmt/format.h>

#include <bit>
#include <limits>
#include <unordered_map>

#include "core/utf8.h"

namespace ttap {
namespace {

class Machine {
 public:
  Machine(std::span<const std::byte> pickle, PickleHeap& heap, PickleHost& host)
      : pickle_(pickle), heap_(heap), host_(host) {}

  Result<PickleId> run() {
    while (!stopped_) {
      op_at_ = at_;
      auto status = step();
      if (status.ok()) continue;
      Error error = std::move(status).error();
      if (!error.offset) error.offset = op_at_;
      return error;
    }
    return result_;
  }

 private:
  static Error corrupt(std::string message) { return {ErrorCode::kCorrupt, std::move(message)}; }

  // --- reading the opcodes' arguments ---

  Result<std::span<const std::byte>> take(uint64_t count) {
    if (count > pickle_.size() - at_)
      return Error{ErrorCode::kTruncated,
                   fmt::format("the pickle wants {} bytes and has {}", count, pickle_.size() - at_)};
    const auto bytes = pickle_.subspan(at_, count);
    at_ += count;
    return bytes;
  }

  Result<uint64_t> number(size_t size) {
    TTAP_ASSIGN(const auto bytes, take(size));
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) value |= static_cast<uint64_t>(bytes[i]) << (8 * i);
    return value;
  }

  Result<std::string_view> counted(size_t length_size) {
    TTAP_ASSIGN(const uint64_t length, number(length_size));
    TTAP_ASSIGN(const auto bytes, take(length));
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  Result<std::string_view> line() {
    const std::string_view rest(reinterpret_cast<const char*>(pickle_.data()) + at_, pickle_.size() - at_);
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) return Error{ErrorCode::kTruncated, "a name in the pickle does not end"};
    at_ += end + 1;
    return rest.substr(0, end);
  }

  // --- the stack; what stands below the last mark is out of reach ---

  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  Result<PickleId> pop() {
    if (stack_.size() <= floor()) return corrupt("the pickle takes from an empty stack");
    const PickleId top = stack_.back();
    stack_.pop_back();
    return top;
  }

  Result<PickleId> top() const {
    if (stack_.size() <= floor()) return corrupt("the pickle looks at an empty stack");
    return stack_.back();
  }

  Result<std::vector<PickleId>> pop_to_mark() {
    if (marks_.empty()) return corrupt("the pickle returns to a mark it never set");
    std::vector<PickleId> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }

  Status push(PickleValue value) {
    stack_.push_back(heap_.add(std::move(value)));
    return {};
  }
  Status push_id(Result<PickleId> id) {
    if (!id.ok()) return std::move(id).error();
    stack_.push_back(*id);
    return {};
  }
  Status push_text(Result<std::string_view> text, PickleKind kind) {
    if (!text.ok()) return std::move(text).error();
    if (kind == PickleKind::kText && !is_utf8(*text)) return corrupt("a text in the pickle is not UTF-8");
    return push({.kind = kind, .text = *text});
  }
  // A Python 2 string: text when it can be.
  Status push_string(Result<std::string_view> text) {
    const bool is_text = text.ok() && is_utf8(*text);
    return push_text(std::move(text), is_text ? PickleKind::kText : PickleKind::kBytes);
  }
  Status push_bool(bool value) { return push({.kind = PickleKind::kBool, .integer = value}); }

  template <class Int>
  Status push_int() {
    TTAP_ASSIGN(const uint64_t value, number(sizeof(Int)));
    return push({.kind = PickleKind::kInt, .integer = static_cast<Int>(value)});
  }

  Status push_float() {
    TTAP_ASSIGN(const auto bytes, take(8));  // the one big-endian number of the format
    uint64_t bits = 0;
    for (std::byte b : bytes) bits = bits << 8 | static_cast<uint64_t>(b);
    return push({.kind = PickleKind::kFloat, .number = std::bit_cast<double>(bits)});
  }

  Status push_long(size_t length_size) {
    TTAP_ASSIGN(const std::string_view digits, counted(length_size));
    if (digits.size() > 8) return push({.kind = PickleKind::kBigInt, .integer = static_cast<int64_t>(digits.size())});
    uint64_t value = digits.empty() || static_cast<int8_t>(digits.back()) >= 0 ? 0 : ~uint64_t{0};
    for (size_t i = digits.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(digits[i]);
    return push({.kind = PickleKind::kInt, .integer = static_cast<int64_t>(value)});
  }

  Status push_tuple(size_t count) {
    std::vector<PickleId> items(count);
    for (size_t i = count; i-- > 0;) {
      TTAP_ASSIGN(items[i], pop());
    }
    return push({.kind = PickleKind::kTuple, .items = std::move(items)});
  }
  Status push_from_mark(PickleKind kind) {
    TTAP_ASSIGN(auto items, pop_to_mark());
    return push({.kind = kind, .items = std::move(items)});
  }
  Status push_set(Result<std::vector<PickleId>> items) {
    if (!items.ok()) return std::move(items).error();
    const PickleId list = heap_.add({.kind = PickleKind::kList, .items = std::move(items).value()});
    return push({.kind = PickleKind::kSet, .items = {list}});
  }

  // --- containers that grow ---

  Status extend(PickleKind kind, std::span<const PickleId> items) {
    TTAP_ASSIGN(PickleId target, top());
    if (heap_[target].kind != kind)
      return corrupt(fmt::format("the pickle adds items to a {}", to_string(heap_[target].kind)));
    if (kind == PickleKind::kDict && items.size() % 2 != 0) return corrupt("the pickle adds a key without a value");
    if (kind == PickleKind::kSet) target = heap_[target].items[0];
    heap_[target].items.insert(heap_[target].items.end(), items.begin(), items.end());
    return {};
  }
  Status extend_from_stack(PickleKind kind, size_t count) {
    PickleId items[2] = {};
    for (size_t i = count; i-- > 0;) {
      TTAP_ASSIGN(items[i], pop());
    }
    return extend(kind, std::span(items, count));
  }
  Status extend_from_mark(PickleKind kind) {
    TTAP_ASSIGN(const auto items, pop_to_mark());
    return extend(kind, items);
  }

  // --- the memo: keyed by number, so that a large number costs no more than a small one ---

  Status put(Result<uint64_t> index) {
    if (!index.ok()) return std::move(index).error();
    TTAP_ASSIGN(memo_[*index], top());
    return {};
  }
  Status get(Result<uint64_t> index) {
    if (!index.ok()) return std::move(index).error();
    const auto found = memo_.find(*index);
    if (found == memo_.end()) return corrupt(fmt::format("the pickle recalls number {} that it never kept", *index));
    stack_.push_back(found->second);
    return {};
  }

  // --- names and calls: all left to the host ---

  Status global() {
    TTAP_ASSIGN(const std::string_view module, line());
    TTAP_ASSIGN(const std::string_view name, line());
    return push_id(host_.name(module, name));
  }
  Status stack_global() {
    TTAP_ASSIGN(const PickleId name, pop());
    TTAP_ASSIGN(const PickleId module, pop());
    if (heap_[name].kind != PickleKind::kText || heap_[module].kind != PickleKind::kText)
      return corrupt("the pickle names a class by something else than text");
    return push_id(host_.name(heap_[module].text, heap_[name].text));
  }
  Status reduce() {
    TTAP_ASSIGN(const PickleId arguments, pop());
    TTAP_ASSIGN(const PickleId function, pop());
    if (heap_[arguments].kind != PickleKind::kTuple)
      return corrupt("the pickle calls with something else than a tuple");
    return push_id(host_.call(function, arguments));
  }
  Status persistent() {
    TTAP_ASSIGN(const PickleId id, pop());
    return push_id(host_.persistent(id));
  }
  Status build() {
    TTAP_ASSIGN(const PickleId state, pop());
    TTAP_ASSIGN(const PickleId object, top());
    return host_.set_state(object, state);
  }

  static Status forbidden(std::string_view what) {
    return Error{.code = ErrorCode::kForbidden,
                 .message = fmt::format("the pickle wants to {}", what),
                 .hint = "nothing was run; if you trust the file, load it in Python and save the tensors alone"};
  }

  Status step() {
    TTAP_ASSIGN(const uint64_t code, number(1));
    switch (code) {
      case 0x80: {  // PROTO
        TTAP_ASSIGN(const uint64_t protocol, number(1));
        if (protocol <= 5) return {};
        return Error{ErrorCode::kVersion, fmt::format("pickle protocol {} is not known", protocol)};
      }
      case 0x95: {  // FRAME: a hint for readers of streams
        TTAP_ASSIGN(const uint64_t size, number(8));
        if (size <= pickle_.size() - at_) return {};
        return Error{ErrorCode::kTruncated, "a frame of the pickle is longer than the pickle"};
      }
      case '.': {  // STOP
        TTAP_ASSIGN(result_, pop());
        stopped_ = true;
        return {};
      }
      case 'N': return push({.kind = PickleKind::kNone});
      case 0x88: return push_bool(true);
      case 0x89: return push_bool(false);
      case 'K': return push_int<uint8_t>();
      case 'M': return push_int<uint16_t>();
      case 'J': return push_int<int32_t>();
      case 0x8a: return push_long(1);
      case 0x8b: return push_long(4);
      case 'G': return push_float();
      case 'X': return push_text(counted(4), PickleKind::kText);
      case 0x8c: return push_text(counted(1), PickleKind::kText);
      case 0x8d: return push_text(counted(8), PickleKind::kText);
      case 'B': return push_text(counted(4), PickleKind::kBytes);
      case 'C': return push_text(counted(1), PickleKind::kBytes);
      case 0x8e:
      case 0x96:  // BYTEARRAY8
        return push_text(counted(8), PickleKind::kBytes);
      case 'U': return push_string(counted(1));
      case 'T': return push_string(counted(4));
      case ')': return push({.kind = PickleKind::kTuple});
      case 0x85: return push_tuple(1);
      case 0x86: return push_tuple(2);
      case 0x87: return push_tuple(3);
      case 't': return push_from_mark(PickleKind::kTuple);
      case ']': return push({.kind = PickleKind::kList});
      case 'l': return push_from_mark(PickleKind::kList);
      case 'a': return extend_from_stack(PickleKind::kList, 1);
      case 'e': return extend_from_mark(PickleKind::kList);
      case '}': return push({.kind = PickleKind::kDict});
      case 's': return extend_from_stack(PickleKind::kDict, 2);
      case 'u': return extend_from_mark(PickleKind::kDict);
      case 0x8f: return push_set(std::vector<PickleId>{});
      case 0x90: return extend_from_mark(PickleKind::kSet);
      case 0x91: return push_set(pop_to_mark());  // FROZENSET
      case '(': marks_.push_back(stack_.size()); return {};
      case '1': return drop_to_mark();
      case '0': return drop();
      case '2': return push_id(top());  // DUP
      case 'q': return put(number(1));
      case 'r': return put(number(4));
      case 0x94: return put(memo_.size());
      case 'h': return get(number(1));
      case 'j': return get(number(4));
      case 'c': return global();
      case 0x93: return stack_global();
      case 'R': return reduce();
      case 'Q': return persistent();
      case 'b': return build();
      case 0x81: return make_object(false);  // NEWOBJ
      case 0x92: return make_object(true);   // NEWOBJ_EX
      case 'o': return forbidden("make an object of a class (OBJ)");
      case 'i': {  // INST
        TTAP_ASSIGN(const std::string_view module, line());
        TTAP_ASSIGN(const std::string_view name, line());
        return forbidden(fmt::format("make an object of {}.{}", brief_text(module), brief_text(name)));
      }
      case 0x82: return extension(1);
      case 0x83: return extension(2);
      case 0x84: return extension(4);
      case 0x97:
      case 0x98: return Error{ErrorCode::kUnsupported, "the pickle refers to buffers outside itself"};
      case 'I':
      case 'L':
      case 'F':
      case 'S':
      case 'V':
      case 'P':
      case 'd':
      case 'g':
      case 'p':
        return Error{.code = ErrorCode::kUnsupported,
                     .message = fmt::format("opcode '{}' of pickle protocols 0 and 1", static_cast<char>(code)),
                     .hint = "save it again with torch.save"};
      default: return corrupt(fmt::format("{:#04x} is not an opcode of a pickle", code));
    }
  }

  Status drop() {
    // Python lets POP take a mark as well.
    if (!marks_.empty() && stack_.size() == marks_.back()) return marks_.pop_back(), Status{};
    const auto popped = pop();
    return popped.ok() ? Status{} : popped.error();
  }
  Status drop_to_mark() {
    const auto popped = pop_to_mark();
    return popped.ok() ? Status{} : popped.error();
  }

  Status make_object(bool keywords) {
    for (int i = 0; i < (keywords ? 2 : 1); ++i) TTAP_TRY(drop());
    TTAP_ASSIGN(const PickleId type, pop());
    const PickleValue& value = heap_[type];
    return forbidden(fmt::format("make an object of {}",
                                 value.kind == PickleKind::kName ? brief_text(value.text) : to_string(value.kind)));
  }
  Status extension(size_t size) {
    TTAP_ASSIGN(const uint64_t code, number(size));
    return forbidden(fmt::format("use extension code {} of Python's copyreg", code));
  }

  std::span<const std::byte> pickle_;
  PickleHeap& heap_;
  PickleHost& host_;
  size_t at_ = 0;
  size_t op_at_ = 0;
  std::vector<PickleId> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, PickleId> memo_;
  bool stopped_ = false;
  PickleId result_ = 0;
};

}  // namespace

std::string_view to_string(PickleKind kind) {
  constexpr std::string_view kNames[] = {"None",  "bool", "int",  "int", "float", "complex", "str",     "bytes",
                                         "tuple", "list", "dict", "set", "name",  "device",  "storage", "tensor"};
  return kNames[static_cast<size_t>(kind)];
}

Result<PickleId> run_pickle(std::span<const std::byte> pickle, PickleHeap& heap, PickleHost& host) {
  // A heap's ids have 32 bits, and an opcode makes at most two values.
  if (pickle.size() >= std::numeric_limits<PickleId>::max() / 2)
    return Error{ErrorCode::kTooLarge, "a pickle of 2 GiB or more"};
  return Machine(pickle, heap, host).run();
}

}  // namespace ttap
