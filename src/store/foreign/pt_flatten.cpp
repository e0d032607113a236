#include "store/foreign/pt_flatten.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <unordered_set>

#include "core/utf8.h"
#include "store/foreign/pt_names.h"

namespace ttap {
namespace {

constexpr size_t kMaxDepth = 64;

// A small file can describe a tensor that no command would ever be done with: a stride of zero repeats elements. Masks
// are made so in earnest, and are smaller.
constexpr uint64_t kMostExpandedBytes = uint64_t{16} << 30;
constexpr uint64_t kMostExpansion = 1024;  // times what is stored
bool may_be_expanded() {
  const char* text = std::getenv("TTAP_ALLOW_EXPANDED");
  return text != nullptr && std::string_view(text) == "1";
}

// The bytes of a storage that a tensor reaches, from its first element on. Kept apart from the walk because
// every number here is the file's word: nothing may overflow, and nothing may leave the storage.
Result<std::span<const std::byte>> reach(std::span<const std::byte> storage, const ForeignTensor& tensor,
                                         int64_t offset) {
  const auto corrupt = [](const char* what) { return Error{ErrorCode::kCorrupt, what}; };
  if (tensor.strides.size() != tensor.shape.size()) return corrupt("it has another number of strides than dimensions");
  if (std::ranges::any_of(tensor.shape, [](int64_t dim) { return dim < 0; }))
    return corrupt("it has a negative dimension");
  TTAP_ASSIGN(const uint64_t count, checked_element_count(tensor.shape, tensor.dtype));
  if (count == 0) return std::span<const std::byte>{};
  int64_t last = offset;  // the farthest element
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.strides[i] < 0) return corrupt("it has a negative stride");
    int64_t span = 0;
    if (__builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &span) ||
        __builtin_add_overflow(last, span, &last))
      return corrupt("its strides overflow");
  }
  const auto size = static_cast<int64_t>(size_of(tensor.dtype));
  if (last >= static_cast<int64_t>(storage.size()) / size) return corrupt("it reaches beyond its storage");
  const auto stored = static_cast<uint64_t>((last - offset + 1) * size);
  const uint64_t logical = count * static_cast<uint64_t>(size);
  if (logical > kMostExpandedBytes && logical / kMostExpansion > stored && !may_be_expanded())
    return Error{
        .code = ErrorCode::kTooLarge,
        .message = fmt::format("it has {} elements by strides of zero, and {} bytes in the file", count, stored),
        .hint =
            "TTAP_ALLOW_EXPANDED=1 in the environment reads it all the same; that can take long, and exporting "
            "it that much room"};
  return storage.subspan(static_cast<size_t>(offset * size), static_cast<size_t>((last - offset + 1) * size));
}

class Flattener {
 public:
  Flattener(const PickleHeap& heap, const ZipArchive& archive, std::string_view folder, uint64_t pickle_size)
      : heap_(heap), archive_(archive), folder_(folder), budget_((1 << 16) + 64 * pickle_size) {}

  Status walk_root(PickleId root) {
    const PickleValue& value = heap_[root];
    if (value.kind != PickleKind::kDict) return walk(root, Key{.name = "tensor"}, 0);
    for (size_t i = 0; i < value.items.size(); i += 2)
      TTAP_TRY(walk(value.items[i + 1], key_of_foreign_name(key_text(value.items[i], i / 2)), 1));
    return {};
  }

  ForeignTensors take() && { return std::move(result_); }

 private:
  // A dictionary's key as a step of a path; what has no short text goes by its position.
  std::string key_text(PickleId id, size_t place) const {
    const PickleValue& value = heap_[id];
    switch (value.kind) {
      case PickleKind::kText: return std::string(value.text);
      case PickleKind::kInt: return std::to_string(value.integer);
      case PickleKind::kBool: return value.integer ? "True" : "False";
      case PickleKind::kFloat: return fmt::format("{}", value.number);
      case PickleKind::kNone: return "None";
      default: return fmt::format("#{}", place);
    }
  }

  // References let a small pickle stand for a tree of any size; what it may cost is tied to its own size.
  Status spend(uint64_t cost) {
    if (cost > budget_)
      return Error{ErrorCode::kTooLarge, "shared references in the pickle unfold into more than the file justifies"};
    budget_ -= cost;
    return {};
  }

  Status walk(PickleId id, const Key& key, size_t depth) {
    const PickleValue& value = heap_[id];
    TTAP_TRY(spend(32 + key.name.size() + key.path.size()));
    if (depth > kMaxDepth)
      return Error{ErrorCode::kTooLarge, fmt::format("the pickle is nested deeper than {} levels", kMaxDepth)};
    const auto step = [&](PickleId item, const std::string& text) -> Status {
      TTAP_TRY(spend(text.size()));
      Key inner = key;
      inner.path = append_path(key.path, text);
      return walk(item, inner, depth + 1);
    };
    switch (value.kind) {
      case PickleKind::kTensor: return add_tensor(value, key);
      case PickleKind::kDict:
        if (value.items.empty()) return note(key, "{}");
        for (size_t i = 0; i < value.items.size(); i += 2)
          TTAP_TRY(step(value.items[i + 1], key_text(value.items[i], i / 2)));
        return {};
      case PickleKind::kSet: return walk(value.items[0], key, depth + 1);
      case PickleKind::kTuple:
      case PickleKind::kList:
        if (is_short_of_scalars(value)) return note(key, scalars_text(value));
        for (size_t i = 0; i < value.items.size(); ++i) TTAP_TRY(step(value.items[i], std::to_string(i)));
        return {};
      default: return note(key, scalar_text(value));
    }
  }

  Status note(const Key& key, const std::string& text) {
    result_.notes.push_back(fmt::format("{}: {}", brief_text(to_string(key)), text));
    return {};
  }

  static bool is_container(PickleKind kind) {
    return kind == PickleKind::kTensor || kind == PickleKind::kDict || kind == PickleKind::kSet ||
           kind == PickleKind::kTuple || kind == PickleKind::kList;
  }
  // A shape, a pair of betas: better in one note.
  bool is_short_of_scalars(const PickleValue& value) const {
    return value.items.size() <= 8 &&
           std::ranges::none_of(value.items, [&](PickleId id) { return is_container(heap_[id].kind); });
  }
  std::string scalars_text(const PickleValue& value) const {
    std::string text;
    for (PickleId id : value.items) text += (text.empty() ? "" : ", ") + scalar_text(heap_[id]);
    return value.kind == PickleKind::kTuple ? fmt::format("({})", text) : fmt::format("[{}]", text);
  }

  static std::string scalar_text(const PickleValue& value) {
    switch (value.kind) {
      case PickleKind::kBool: return value.integer ? "True" : "False";
      case PickleKind::kInt: return std::to_string(value.integer);
      case PickleKind::kBigInt: return fmt::format("an integer of {} bytes", value.integer);
      case PickleKind::kFloat: return fmt::format("{}", value.number);
      case PickleKind::kComplex: return fmt::format("({}{:+}j)", value.number, value.imaginary);
      case PickleKind::kText: return fmt::format("\"{}\"", brief_text(value.text));
      case PickleKind::kName:
        return value.dtype && value.integer == static_cast<int64_t>(PtName::kDType)
                   ? fmt::format("torch.{}", value.text)
                   : std::string(value.text);
      case PickleKind::kDevice:
        return value.integer < 0 ? fmt::format("device {}", brief_text(value.text))
                                 : fmt::format("device {}:{}", brief_text(value.text), value.integer);
      case PickleKind::kStorage: return fmt::format("a storage of {} elements", value.integer);
      default: return std::string(to_string(value.kind));
    }
  }

  std::vector<int64_t> integers(PickleId tuple) const {
    std::vector<int64_t> values;
    for (PickleId id : heap_[tuple].items) values.push_back(heap_[id].integer);
    return values;
  }

  Status add_tensor(const PickleValue& value, const Key& key) {
    const PickleValue& storage = heap_[value.items[0]];
    TTAP_TRY(spend(16 * heap_[value.items[1]].items.size() + storage.text.size()));
    const auto bad = [&](std::string_view why, ErrorCode code = ErrorCode::kCorrupt) {
      return Error{code, fmt::format("tensor '{}': {}", brief_text(to_string(key)), why)};
    };
    ForeignTensor tensor{.key = key, .dtype = *value.dtype, .shape = integers(value.items[1])};
    tensor.strides = integers(value.items[2]);

    const ZipEntry* entry = archive_.find(fmt::format("{}/data/{}", folder_, storage.text));
    if (entry == nullptr) return bad(fmt::format("its storage '{}' is not in the file", brief_text(storage.text)));
    // Without a dtype the elements are bytes.
    const uint64_t element = storage.dtype ? size_of(*storage.dtype) : 1;
    if (static_cast<uint64_t>(storage.integer) > entry->data.size() / element)
      return bad("its storage is shorter than the pickle says");
    const auto whole = entry->data.first(static_cast<size_t>(storage.integer) * element);
    auto bytes = reach(whole, tensor, value.integer);
    if (!bytes.ok()) {
      Error error = bad(bytes.error().message, bytes.error().code);
      error.hint = bytes.error().hint;
      return error;
    }
    tensor.bytes = *bytes;
    if (is_contiguous(tensor.view())) tensor.strides.clear();
    if (!keys_.insert(to_string(key)).second)
      return bad("two tensors of the file would have this name", ErrorCode::kUnsupported);
    result_.tensors.push_back(std::move(tensor));
    return {};
  }

  const PickleHeap& heap_;
  const ZipArchive& archive_;
  std::string_view folder_;
  uint64_t budget_;
  std::unordered_set<std::string> keys_;
  ForeignTensors result_;
};

}  // namespace

Result<ForeignTensors> flatten_pt(const PickleHeap& heap, PickleId root, const ZipArchive& archive,
                                  std::string_view folder, uint64_t pickle_size) {
  Flattener flattener(heap, archive, folder, pickle_size);
  TTAP_TRY(flattener.walk_root(root));
  return std::move(flattener).take();
}

}  // namespace ttap
