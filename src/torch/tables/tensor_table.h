#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/flat_hash_map.h>

#include <bit>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture/ops/op_sink.h"

namespace ttap::torch_source {

struct ByteRange {  // of a storage
  int64_t begin;
  int64_t end;
  bool overlaps(const ByteRange& other) const { return begin < other.end && other.begin < end; }
  bool covers(const ByteRange& other) const { return begin <= other.begin && other.end <= end; }
};

// Which tensor object is which, what it looks like, and which of the recorded values it holds.
//
// A value is what a storage held at one moment, seen through one geometry. It is the same as long as nobody writes to
// those bytes: no call that says so or was seen to (`written`), and no change of PyTorch's version counter. Identity is
// exact: the table keeps weak references, so an address is never taken for its former owner's; the memory of tensors
// and storages is still freed when the program drops them.
class TensorTable {
 public:
  explicit TensorTable(TextTable& texts) : texts_(texts) {}

  struct Known {
    uint32_t value;
    bool is_read;  // more than dtype and shape of it were kept
  };

  // Strided, and its sizes are numbers: the keys it is dispatched by say all else that a meta depends on.
  static bool is_usual(const c10::TensorImpl& impl) {
    constexpr c10::DispatchKeySet kUnusual({c10::DispatchKey::Sparse, c10::DispatchKey::SparseCsr,
                                            c10::DispatchKey::NestedTensor, c10::DispatchKey::Python,
                                            c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::MkldnnCPU});
    return !impl.key_set().has_any(kUnusual) && !impl.has_symbolic_sizes_strides();
  }

  MetaId meta_of(const at::Tensor& tensor) {
    return is_usual(*tensor.unsafeGetTensorImpl()) ? usual_meta_of(tensor) : find_or_add_meta(tensor);
  }
  [[gnu::always_inline]] MetaId usual_meta_of(const at::Tensor& tensor) {
    const uint64_t hash = usual_hash(*tensor.unsafeGetTensorImpl());
    RecentMeta& recent = recent_metas_[hash >> 56];
    if (recent.hash != hash) [[unlikely]]
      recent = {hash, find_or_add_meta(tensor)};
    return recent.meta;
  }
  const std::deque<TensorMeta>& metas() const { return metas_; }
  // `[2, ?, 4]`, where some sizes are no numbers; else empty.
  static std::string sizes_text(const at::Tensor& tensor);

  struct Object {
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> reference;
    uint32_t number;                                         // kNoNumber: it has a name, and was not seen yet
    TextId name = 0;                                         // of a parameter, a buffer, an optimizer's state
    int64_t named_in = std::numeric_limits<int64_t>::min();  // the pass that has its name
  };
  Object& object_of(const at::Tensor& tensor) {
    Object& object = find_or_add_object(tensor);
    if (object.number == kNoNumber) [[unlikely]]
      object.number = next_number_++;
    return object;
  }
  // The first name that a tensor is given is its own.
  void set_name(const at::Tensor& tensor, TextId name) {
    if (Object& object = find_or_add_object(tensor); object.name == 0) object.name = name;
  }
  TextId name_of(const at::Tensor& tensor) const;
  // The value that the tensor holds, if it was recorded.
  std::optional<Known> value_of(const at::Tensor& tensor, MetaId meta);
  void set_value(const at::Tensor& tensor, MetaId meta, uint32_t value);
  // It turned out to hold an earlier value still.
  void keep_value(const at::Tensor& tensor, MetaId meta, uint32_t value) {
    if (View* view = find_view(tensor, meta)) view->value = value;
  }
  void set_read(const at::Tensor& tensor, MetaId meta) {
    if (View* view = find_view(tensor, meta)) view->is_read = true;
  }
  // The fingerprint of the same bytes in the same order, perhaps in another shape.
  const Fingerprint* fingerprint_of(const at::Tensor& tensor, MetaId meta);
  void set_fingerprint(const at::Tensor& tensor, MetaId meta, const Fingerprint& fingerprint);

  // Where the fingerprint of those bytes is on its way from a GPU already: the value that it is for, and the tap if
  // they were tapped in a graph. None: a value of 0.
  struct OnItsWay {
    uint32_t value = 0;
    const GraphPass* graph = nullptr;
    uint32_t tap = kNoTap;
  };
  OnItsWay on_its_way(const at::Tensor& tensor, MetaId meta, const GraphPass* graph);
  void set_on_its_way(const at::Tensor& tensor, MetaId meta, const OnItsWay& where) {
    if (View* view = find_view(tensor, meta)) view->on_its_way = where;
  }

  // Values are those of one pass; -1 when there are no passes. Fingerprints hold for all.
  void set_pass(int64_t pass) { pass_ = pass; }

  // A collective fills the storage, until it is waited for; `is_over` says whether it was, where that can be asked.
  void set_under_way(const at::Tensor& tensor, std::function<bool()> is_over = nullptr);
  bool is_under_way(const at::Tensor& tensor);

  // The tensor was written to: what overlaps it holds another value now.
  void written(const at::Tensor& tensor);
  // It may have been.
  void doubt(const at::Tensor& tensor);
  // The value that a call wrote to the tensor, which may be a part of others.
  void add_write(const at::Tensor& tensor, uint32_t value);
  // What was written to the tensor's bytes in this pass, by calls that took them for another tensor's; else what stood
  // there as another tensor's value.
  std::vector<uint32_t> writes_to(const at::Tensor& tensor);
  // No tensor's value is known any more.
  void forget_values();
  // Nor which tensor is which: nothing refers to any of them.
  void forget_objects();
  // Nothing refers to this tensor; its bytes stay known.
  void forget_object(const at::Tensor& tensor) {
    objects_.erase(tensor.unsafeGetTensorImpl());
    loose_objects_.erase(tensor.unsafeGetTensorImpl());
  }
  // Whether any tensor of the storage has been seen.
  bool knows_storage(const at::Tensor& tensor) const {
    return tensor.has_storage() && storages_.find(tensor.storage().unsafeGetStorageImpl()) != storages_.end();
  }
  // The storage holds whatever was there before, until it is written to.
  void set_uninitialised(const at::Tensor& tensor, bool uninitialised) {
    if (Storage* storage = storage_of(tensor)) storage->uninitialised = uninitialised;
  }
  bool is_uninitialised(const at::Tensor& tensor) {
    const Storage* storage = storage_of(tensor);
    return storage != nullptr && storage->uninitialised;
  }

 private:
  struct View {
    int64_t offset;  // in elements
    ByteRange range;
    MetaId meta;
    uint32_t version;
    uint32_t value;
    int64_t pass;
    bool is_read;
    bool has_fingerprint;
    Fingerprint fingerprint;
    OnItsWay on_its_way = {};
  };
  struct Write {
    ByteRange range;
    uint32_t value;
    int64_t pass;
  };
  struct Storage {
    c10::weak_intrusive_ptr<c10::StorageImpl> reference;
    bool uninitialised = false;
    bool under_way = false;
    std::vector<View> views = {};                              // a few, the newest last
    std::vector<Write> writes = {};                            // likewise
    std::unique_ptr<std::function<bool()>> is_over = nullptr;  // what is under way
  };
  // The last few that were added. One that is dead when it leaves is forgotten at once: most tensors live for an
  // operator or two, and their memory should be used again while it is in the caches. What is left of a dead one would
  // also lie in the midst of large blocks that were freed, so those that live a little longer, as the parts of a sparse
  // tensor do, are looked at once more.
  class Newcomers {
   public:
    template <class Map>
    void add(const void* newest, Map& map) {
      const void* oldest = std::exchange(recent_[next_++ % kCount], newest);
      if (forget_if_dead(oldest, map)) return;
      forget_if_dead(std::exchange(survivors_[next_survivor_++ % kSurvivors], oldest), map);
    }

   private:
    template <class Map>
    static bool forget_if_dead(const void* address, Map& map) {
      const auto found = map.find(address);
      if (found == map.end() || !found->second.reference.expired()) return false;
      map.erase(found);
      return true;
    }

    static constexpr size_t kCount = 4, kSurvivors = 16;
    const void* recent_[kCount] = {};
    const void* survivors_[kSurvivors] = {};
    size_t next_ = 0, next_survivor_ = 0;
  };

  static constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;
  static uint64_t stirred(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * kOdd;
    return hash ^ hash >> 29;
  }
  [[gnu::always_inline]] static uint64_t usual_hash(const c10::TensorImpl& impl) {
    const c10::IntArrayRef shape = impl.sizes();
    const int64_t* const strides = impl.strides().data();
    uint64_t hash =
        stirred(impl.key_set().raw_repr(), static_cast<uint64_t>(impl.dtype().toScalarType()) << 32 |
                                               shape.size() << 16 | static_cast<uint8_t>(impl.device().index()));
    for (size_t i = 0; i < shape.size(); ++i)
      hash = stirred(hash, static_cast<uint64_t>(shape[i]) ^ std::rotl(static_cast<uint64_t>(strides[i]) * kOdd, 32));
    return hash;
  }
  static uint64_t hash_of(const at::Tensor& tensor, c10::IntArrayRef shape, c10::IntArrayRef strides);
  MetaId find_or_add_meta(const at::Tensor& tensor);
  Object& find_or_add_object(const at::Tensor& tensor);
  View* find_view(const at::Tensor& tensor, MetaId meta);
  // One of the same bytes in the same order for which `is_wanted` holds, the newest of them.
  template <class IsWanted>
  const View* find_same_bytes(const at::Tensor& tensor, MetaId meta, IsWanted is_wanted);
  Storage* storage_of(const at::Tensor& tensor);
  template <class Map>
  static void drop_dead(Map& map) {
    for (auto it = map.begin(); it != map.end();) it = it->second.reference.expired() ? map.erase(it) : std::next(it);
  }
  void drop_dead();

  TextTable& texts_;
  std::deque<TensorMeta> metas_;
  ska::flat_hash_map<uint64_t, MetaId> meta_numbers_;
  struct RecentMeta {
    uint64_t hash = 0;
    MetaId meta = 0;
  };
  RecentMeta recent_metas_[256];  // by the first byte of the hash; asked before the map
  ska::flat_hash_map<const void*, Object> objects_;
  // Those without a storage: what some of them consist of lives as long as anything refers to them. The dead ones are
  // forgotten whenever there is a new one.
  ska::flat_hash_map<const void*, Object> loose_objects_;
  ska::flat_hash_map<const void*, Storage> storages_;
  uint32_t next_number_ = 0;
  int64_t pass_ = -1;
  Newcomers new_objects_;
  Newcomers new_storages_;
  const void* found_storage_ = nullptr;  // the one that was asked for last
  Storage* found_ = nullptr;
  size_t sweep_at_ = 4096;
  TextId cpu_ = 0;
};

// PyTorch's dtype, or the one of the same size that stands for it; nothing for one without bytes of its own.
std::optional<DType> dtype_of(c10::ScalarType type);

inline constexpr std::string_view kSubclass = "a tensor subclass";
// Why the bytes of a tensor cannot be read where they lie; nothing when they can.
std::string_view unreadable(const at::Tensor& tensor);

}  // namespace ttap::torch_source
