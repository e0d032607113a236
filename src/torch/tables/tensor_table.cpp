#include "torch/tables/tensor_table.h"

#include <ATen/NestedTensorImpl.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <limits>

#include "core/mix64.h"

namespace ttap::torch_source {
namespace {

constexpr size_t kViewsPerStorage = 16;
constexpr size_t kWritesPerStorage = 16;
constexpr size_t kFirstSweep = 4096;

// The same memory is another value when it is to be read as its conjugate or negative.
uint8_t marks_of(const at::Tensor& tensor) {
  return static_cast<uint8_t>((tensor.is_conj() ? 1 : 0) | (tensor.is_neg() ? 2 : 0));
}

bool has_sizes(const at::Tensor& tensor) {
  return !tensor.is_nested() && !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}
bool has_strides(const at::Tensor& tensor) { return tensor.layout() == c10::kStrided; }

bool in_c_order(c10::IntArrayRef shape, c10::IntArrayRef strides) {
  int64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

// What a tensor may touch.
ByteRange range_of(const at::Tensor& tensor) {
  if (!has_sizes(tensor) || !has_strides(tensor)) return {0, std::numeric_limits<int64_t>::max()};
  const auto size = static_cast<int64_t>(tensor.itemsize());
  const int64_t begin = tensor.storage_offset();
  int64_t last = begin;
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) == 0) return {begin * size, begin * size};
    last += (tensor.size(i) - 1) * tensor.stride(i);
  }
  return {begin * size, (last + 1) * size};
}

uint32_t version_of(c10::TensorImpl& impl) {
  return impl.is_inference() ? 0 : impl.version_counter().current_version();
}

}  // namespace

std::optional<DType> dtype_of(c10::ScalarType type) {
  using T = c10::ScalarType;
  switch (type) {
    case T::Bool: return DType::kBool;
    case T::Byte: return DType::kU8;
    case T::Char: return DType::kI8;
    case T::Short: return DType::kI16;
    case T::Int: return DType::kI32;
    case T::Long: return DType::kI64;
    case T::UInt16: return DType::kU16;
    case T::UInt32: return DType::kU32;
    case T::UInt64: return DType::kU64;
    case T::Half: return DType::kF16;
    case T::BFloat16: return DType::kBF16;
    case T::Float: return DType::kF32;
    case T::Double: return DType::kF64;
    case T::ComplexFloat: return DType::kC64;
    case T::ComplexDouble: return DType::kC128;
    case T::Float8_e4m3fn: return DType::kF8E4M3FN;
    case T::Float8_e5m2: return DType::kF8E5M2;
    case T::Float8_e4m3fnuz: return DType::kF8E4M3FNUZ;
    case T::Float8_e5m2fnuz: return DType::kF8E5M2FNUZ;
    case T::Float8_e8m0fnu: return DType::kF8E8M0FNU;
    case T::Float4_e2m1fn_x2: return DType::kF4E2M1FNx2;
    // Their bytes, as integers of the same size.
    case T::ComplexHalf: return DType::kU32;
    case T::QInt8: return DType::kI8;
    case T::QUInt8:
    case T::Bits8: return DType::kU8;
    case T::QInt32: return DType::kI32;
    case T::Bits16: return DType::kU16;
    default: return std::nullopt;
  }
}

std::string_view unreadable(const at::Tensor& tensor) {
  if (tensor.is_nested()) return "a nested tensor";
  if (tensor.layout() == c10::kSparse) return "a sparse tensor";
  if (tensor.layout() == c10::kMkldnn) return "in the layout of oneDNN";
  if (tensor.layout() != c10::kStrided) return "a sparse tensor in a compressed layout";
  if (tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return "of symbolic shape";
  if (tensor.is_meta()) return "on the meta device";
  if (!tensor.has_storage()) return "without a storage";
  if (!dtype_of(tensor.scalar_type())) return "of a dtype that has no bytes of its own";
  if (tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python)) return kSubclass;
  if (tensor.numel() == 0) return {};
  if (tensor.const_data_ptr() == nullptr) return "without memory";
  if (range_of(tensor).end > static_cast<int64_t>(tensor.storage().nbytes())) return "larger than its storage";
  return {};
}

uint64_t TensorTable::hash_of(const at::Tensor& tensor, c10::IntArrayRef shape, c10::IntArrayRef strides) {
  const c10::Device device = tensor.device();
  uint64_t hash =
      stirred(shape.size(), static_cast<uint64_t>(tensor.scalar_type()) << 32 | uint64_t{marks_of(tensor)} << 16 |
                                static_cast<uint64_t>(device.type()) << 8 | static_cast<uint8_t>(device.index()));
  if (strides.empty()) {
    for (const int64_t size : shape) hash = stirred(hash, static_cast<uint64_t>(size));
  } else {
    for (size_t i = 0; i < shape.size(); ++i)
      hash = stirred(hash, static_cast<uint64_t>(shape[i]) ^ std::rotl(static_cast<uint64_t>(strides[i]) * kOdd, 32));
  }
  return hash;
}

MetaId TensorTable::find_or_add_meta(const at::Tensor& tensor) {
  const bool sized = has_sizes(tensor);
  // A subclass may answer for itself, in Python, for which this is not the place.
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const c10::IntArrayRef shape = sized ? impl.sizes_default() : c10::IntArrayRef{};
  const c10::IntArrayRef strides = sized && has_strides(tensor) ? impl.strides_default() : c10::IntArrayRef{};
  const uint64_t hash = hash_of(tensor, shape, strides);
  const auto [found, is_new] = meta_numbers_.emplace(mix64(hash), static_cast<MetaId>(metas_.size()));
  if (!is_new) return found->second;
  TensorMeta meta;
  meta.dtype = dtype_of(tensor.scalar_type()).value_or(DType::kU8);
  meta.device = texts_.intern(tensor.device().str());
  meta.shape.assign(shape.begin(), shape.end());
  if (!strides.empty() && !in_c_order(shape, strides)) meta.strides.assign(strides.begin(), strides.end());
  meta.marks = marks_of(tensor);
  meta.byte_count = size_of(meta.dtype);
  for (const int64_t size : shape) meta.byte_count *= static_cast<uint64_t>(size);
  metas_.push_back(std::move(meta));
  return found->second;
}

std::string TensorTable::sizes_text(const at::Tensor& tensor) {
  if (has_sizes(tensor)) return {};
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const auto* nested = dynamic_cast<const at::native::NestedTensorImpl*>(&impl);
  const int64_t dimensions = nested != nullptr ? nested->dim() : static_cast<int64_t>(impl.sym_sizes_default().size());
  const c10::SymIntArrayRef sizes = nested != nullptr ? c10::SymIntArrayRef() : impl.sym_sizes_default();
  std::string text;
  for (int64_t i = 0; i < dimensions; ++i) {
    std::optional<int64_t> size;
    if (nested != nullptr)
      size = nested->opt_size(i);
    else if (const c10::SymInt& each = sizes[static_cast<size_t>(i)]; !each.is_symbolic())
      size = each.as_int_unchecked();
    text += (i == 0 ? "[" : ", ") + (size ? std::to_string(*size) : "?");
  }
  return text.empty() ? "[]" : text + "]";
}

TensorTable::Object& TensorTable::find_or_add_object(const at::Tensor& tensor) {
  const void* impl = tensor.unsafeGetTensorImpl();
  auto& objects = tensor.has_storage() ? objects_ : loose_objects_;
  const auto found = objects.find(impl);
  if (found != objects.end()) return found->second;
  if (!tensor.has_storage()) {
    drop_dead(loose_objects_);
  } else {
    if (objects_.size() >= sweep_at_) drop_dead();
    new_objects_.add(impl, objects_);
  }
  const c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> reference(tensor.getIntrusivePtr());
  return objects.emplace(impl, Object{.reference = reference, .number = kNoNumber}).first->second;
}

TextId TensorTable::name_of(const at::Tensor& tensor) const {
  const auto& objects = tensor.has_storage() ? objects_ : loose_objects_;
  const auto found = objects.find(tensor.unsafeGetTensorImpl());
  return found != objects.end() ? found->second.name : 0;
}

TensorTable::Storage* TensorTable::storage_of(const at::Tensor& tensor) {
  if (!tensor.has_storage() || tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return nullptr;
  const c10::Storage& storage = tensor.storage();
  const void* impl = storage.unsafeGetStorageImpl();
  if (impl == nullptr) return nullptr;
  if (impl == found_storage_) return found_;
  auto found = storages_.find(impl);
  if (found == storages_.end()) {
    if (storages_.size() >= sweep_at_) drop_dead();
    new_storages_.add(impl, storages_);
    found = storages_.emplace(impl, Storage{.reference = storage.getWeakStorageImpl(), .views = {}}).first;
  }
  found_storage_ = impl;
  found_ = &found->second;
  return found_;
}

TensorTable::View* TensorTable::find_view(const at::Tensor& tensor, MetaId meta) {
  Storage* storage = storage_of(tensor);
  if (storage == nullptr) return nullptr;
  const int64_t offset = tensor.storage_offset();
  const uint32_t version = version_of(*tensor.unsafeGetTensorImpl());
  for (size_t i = storage->views.size(); i-- > 0;) {
    View& view = storage->views[i];
    if (view.offset == offset && view.meta == meta) return view.version == version ? &view : nullptr;
  }
  return nullptr;
}

std::optional<TensorTable::Known> TensorTable::value_of(const at::Tensor& tensor, MetaId meta) {
  const View* view = find_view(tensor, meta);
  if (view == nullptr || view->value == 0 || view->pass != pass_) return std::nullopt;
  return Known{view->value, view->is_read};
}

void TensorTable::set_value(const at::Tensor& tensor, MetaId meta, uint32_t value) {
  if (View* view = find_view(tensor, meta)) {  // the same bytes, in another pass
    view->value = value;
    view->pass = pass_;
    view->is_read = false;
    return;
  }
  Storage* storage = storage_of(tensor);
  if (storage == nullptr) return;
  const int64_t offset = tensor.storage_offset();
  std::erase_if(storage->views, [&](const View& view) { return view.offset == offset && view.meta == meta; });
  if (storage->views.size() == kViewsPerStorage) storage->views.erase(storage->views.begin());
  storage->views.push_back({.offset = offset,
                            .range = range_of(tensor),
                            .meta = meta,
                            .version = version_of(*tensor.unsafeGetTensorImpl()),
                            .value = value,
                            .pass = pass_,
                            .is_read = false,
                            .has_fingerprint = false,
                            .fingerprint = {}});
}

template <class IsWanted>
const TensorTable::View* TensorTable::find_same_bytes(const at::Tensor& tensor, MetaId meta, IsWanted is_wanted) {
  Storage* storage = storage_of(tensor);
  if (storage == nullptr) return nullptr;
  const TensorMeta& wanted = metas_[meta];
  const int64_t offset = tensor.storage_offset();
  const uint32_t version = version_of(*tensor.unsafeGetTensorImpl());
  for (size_t i = storage->views.size(); i-- > 0;) {
    const View& view = storage->views[i];
    if (!is_wanted(view) || view.offset != offset || view.version != version) continue;
    const TensorMeta& known = metas_[view.meta];
    if (view.meta == meta || (known.dtype == wanted.dtype && known.marks == wanted.marks &&
                              known.byte_count == wanted.byte_count && known.strides.empty() && wanted.strides.empty()))
      return &view;
  }
  return nullptr;
}

const Fingerprint* TensorTable::fingerprint_of(const at::Tensor& tensor, MetaId meta) {
  const View* view = find_same_bytes(tensor, meta, [](const View& each) { return each.has_fingerprint; });
  return view != nullptr ? &view->fingerprint : nullptr;
}

TensorTable::OnItsWay TensorTable::on_its_way(const at::Tensor& tensor, MetaId meta, const GraphPass* graph) {
  const View* view = find_same_bytes(
      tensor, meta, [&](const View& each) { return each.on_its_way.value != 0 && each.on_its_way.graph == graph; });
  return view != nullptr ? view->on_its_way : OnItsWay{};
}

void TensorTable::set_fingerprint(const at::Tensor& tensor, MetaId meta, const Fingerprint& fingerprint) {
  View* view = find_view(tensor, meta);
  if (view == nullptr) return;
  view->has_fingerprint = true;
  view->fingerprint = fingerprint;
}

void TensorTable::forget_values() {
  for (auto& [key, storage] : storages_) {
    storage.views.clear();
    storage.writes.clear();
    storage.uninitialised = false;
  }
}

void TensorTable::written(const at::Tensor& tensor) {
  Storage* storage = storage_of(tensor);
  if (storage == nullptr) return;
  storage->uninitialised = storage->under_way = false;
  storage->is_over = nullptr;
  const ByteRange range = range_of(tensor);
  const uint32_t version = version_of(*tensor.unsafeGetTensorImpl());
  std::erase_if(storage->views, [&](const View& view) { return view.range.overlaps(range); });
  std::erase_if(storage->writes, [&](const Write& write) { return range.covers(write.range); });
  // Those beside it are what they were, though the counter that they share has gone on.
  for (View& view : storage->views)
    if (view.version + 1 == version) view.version = version;
}

void TensorTable::forget_objects() {
  objects_.clear();
  loose_objects_.clear();
  storages_.clear();
  found_storage_ = nullptr;
}

void TensorTable::doubt(const at::Tensor& tensor) {
  Storage* storage = storage_of(tensor);
  if (storage == nullptr) return;
  const ByteRange range = range_of(tensor);
  std::erase_if(storage->views, [&](const View& view) { return view.range.overlaps(range); });
}

void TensorTable::add_write(const at::Tensor& tensor, uint32_t value) {
  Storage* storage = storage_of(tensor);
  if (storage == nullptr) return;
  if (storage->writes.size() == kWritesPerStorage) storage->writes.erase(storage->writes.begin());
  storage->writes.push_back({range_of(tensor), value, pass_});
}

std::vector<uint32_t> TensorTable::writes_to(const at::Tensor& tensor) {
  const Storage* storage = storage_of(tensor);
  std::vector<uint32_t> values;
  if (storage == nullptr) return values;
  const ByteRange range = range_of(tensor);
  const auto add_all = [&](const auto& all) {
    for (const auto& each : all)
      if (each.pass == pass_ && each.range.overlaps(range) && values.size() < kWritesPerStorage)
        values.push_back(each.value);
  };
  add_all(storage->writes);
  // A view that no operator made: a compiler's.
  if (values.empty()) add_all(storage->views);
  return values;
}

void TensorTable::set_under_way(const at::Tensor& tensor, std::function<bool()> is_over) {
  Storage* storage = storage_of(tensor);
  if (storage == nullptr) return;
  storage->under_way = true;
  storage->is_over = is_over ? std::make_unique<std::function<bool()>>(std::move(is_over)) : nullptr;
}

bool TensorTable::is_under_way(const at::Tensor& tensor) {
  Storage* storage = storage_of(tensor);
  if (storage == nullptr || !storage->under_way) return false;
  if (storage->is_over == nullptr || !(*storage->is_over)()) return true;
  storage->under_way = false;
  storage->is_over = nullptr;
  return false;
}

void TensorTable::drop_dead() {
  drop_dead(objects_);
  drop_dead(storages_);
  found_storage_ = nullptr;
  sweep_at_ = std::max<size_t>(kFirstSweep, 2 * std::max(objects_.size(), storages_.size()));
}

}  // namespace ttap::torch_source
