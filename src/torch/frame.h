#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture/ops/op_sink.h"
#include "torch/observer.h"
#include "torch/tables/arguments.h"
#include "torch/tables/notes.h"

namespace ttap::torch_source {

// A call under way on one thread. Frames are used again, so that their vectors keep their memory.
struct Observer::Frame {
  // What becomes of a tensor's bytes.
  enum class Way : uint8_t {
    kRead,  // on the host, outside the lock
    kNotRead,
    kLater,      // its fingerprint is on its way from a GPU
    kDelivered,  // the same, and the sink is notified when it is launched
    kTapped,     // in the graph of the call
    kTwin,       // its fingerprint is another's, which is on its way
    kCopied,     // from a GPU, by the sink
  };
  struct Pending {
    at::Tensor tensor = {};  // undefined: nothing to be read
    OpTensor record;
    const TensorMeta* meta;
    std::string_view role = {};
    std::string_view path = {};
    std::string_view device = {};
    std::optional<Fingerprint> known = {};
    Way way = Way::kRead;
    cuda::PendingResult later = {};
    uint32_t tap = kNoTap;
    std::string_view group = {};
    bool is_subclass = false;  // Python is asked what it consists of
    bool is_lost = false;      // its bytes could not be had
  };
  struct Written {
    at::Tensor tensor;
    TextId path;
    bool returned = false;
    uint32_t use = 0;                    // of a kernel's argument, before
    std::optional<Hash128> before = {};  // of a kernel's argument
  };
  // A value that the tensor of this use had, when it was last seen.
  struct Doubted {
    uint32_t use;
    uint32_t value;
    Hash128 hash;
  };
  // Cold fields, kept off the hot cache lines.
  struct Rare {
    std::vector<at::Tensor> held;
    std::vector<Pending> pending;
    std::vector<Written> written;
    std::vector<Doubted> doubted;
    std::vector<const c10::TensorImpl*> lazy;  // arguments that PyTorch copies for it
    std::vector<OpUse> parts;                  // uses that are noted last: see Observer::note_parts()
    bool is_async = false;                     // a collective that the program will wait for
    std::function<bool()> is_over = nullptr;   // whether it has
    JsonObject notes;
    JsonObject unread;                             // path to reason
    JsonObject names;                              // path to the name of a tensor
    JsonObject sizes;                              // path to sizes that are not all numbers
    std::map<std::string, JsonObject> subclasses;  // by note: path to what Python says
    std::vector<c10::IValue> arguments;            // kept for the user's hook only
    at::Generator generator;                       // that the call draws from, where its state is kept
    at::Tensor generator_state;                    // before the call

    void clear() {
      held.clear();
      pending.clear();
      written.clear();
      doubted.clear();
      lazy.clear();
      parts.clear();
      is_async = false;
      is_over = nullptr;
      notes.clear();
      unread.clear();
      names.clear();
      sizes.clear();
      subclasses.clear();
      arguments.clear();
      generator = {};
      generator_state.reset();
    }
  };

  OpCall call;
  Operator* op = nullptr;
  bool logged = false;    // false: only hides what it calls
  bool opaque = true;     // hides what it calls
  bool autograd = false;  // its kernel begins in autograd, where a dispatch mode still sees what it calls
  bool lazy = false;      // some arguments are lazy views, and PyTorch copies them first
  bool backward = false;
  bool is_kernel = false;  // what it calls is shown, and it may write to memory between those calls
  bool in_kernel = false;  // is called by one
  bool trains = true;      // false: what it writes only when training, it does not write
  bool has_children = false;
  TextId scope = 0;
  bool has_rare = false;  // false: rare() is empty
  uint32_t result_count = 0;
  bool only_tensors = false;  // what was collected last is lone tensors, all of them in `places`
  std::vector<TensorPlace> places;

  Rare& rare() {
    has_rare = true;
    return rare_;
  }
  Pending& add_pending(const OpTensor& record, const TensorMeta& meta, const OpPlace& words, const TextTable& texts) {
    Pending& pending = rare().pending.emplace_back(Pending{.record = record, .meta = &meta});
    pending.role = texts.text(words.role);
    pending.path = texts.text(words.path);
    pending.device = texts.text(meta.device);
    pending.group = texts.text(record.group);
    return pending;
  }
  bool is_pending(uint32_t value) const {
    return has_rare && std::ranges::find(rare_.pending, value, [](const Pending& each) { return each.record.value; }) !=
                           rare_.pending.end();
  }
  [[gnu::always_inline]] void collect(c10::ArrayRef<const c10::IValue> values) {
    const bool lone = collect_lone_tensors(values, places);
    only_tensors = lone && places.size() == values.size();
    if (!lone) [[unlikely]]
      collect_tensors(values, places, rare().held);
  }
  // Of what was collected last.
  uint64_t signature_of(c10::ArrayRef<const c10::IValue> values) const {
    return only_tensors ? only_tensors_signature(values.size()) : signature(values);
  }
  // Places point to what may be gone soon.
  void forget_places() {
    places.clear();
    if (has_rare) rare_.held.clear();
  }
  void clear() {
    call.clear();
    op = nullptr;
    logged = has_children = autograd = lazy = backward = is_kernel = in_kernel = false;
    opaque = true;
    places.clear();
    if (!std::exchange(has_rare, false)) return;
    call.clear_taken();  // by way of what was pending
    rare_.clear();
  }

 private:
  Rare rare_;
};

// A call of which only names and shapes are kept: it has no frame as long as nothing unusual happens in it.
struct Observer::Shaped {
  Operator* op = nullptr;  // null: none is under way
  TextId scope = 0;
  bool autograd = false;  // as Frame's
  bool backward = false;
  ShapedCall call;
};

struct Observer::Scope {
  TextId name = 0;
  uint32_t event = kNoEvent;
  std::unique_ptr<Frame> frame = nullptr;  // of the event that the observer made
};

// What an observer knows of one thread.
struct Observer::ThreadState {
  struct Node {
    std::string name;
    TextId notes = 0;  // that say so
    uint32_t forward = kNoEvent;
    TextId scope = 0;
    int64_t pass = -1;
    size_t scopes_below = 0;
  };

  std::shared_ptr<Link> link;
  int slot = 0;    // of the callbacks
  int in_use = 0;  // by callbacks that are under way, further up the stack
  ThreadFlags* flags = nullptr;
  const c10::impl::PODLocalDispatchKeySet* keys = nullptr;  // PyTorch's, of this thread
  uint64_t thread = 0;
  bool is_worker = false;  // was in a parallel region when it was first seen
  std::vector<std::unique_ptr<Frame>> frames;
  size_t depth = 0;   // of frames in use
  Shaped shaped;      // the innermost call, if it is one of these
  size_t opaque = 0;  // how many of all these hide what they call
  std::vector<Scope> scopes;
  std::vector<size_t> kernels;  // depths of the frames that are kernels
  std::vector<Node> nodes;
  std::vector<size_t> engine;  // how many nodes there were when autograd began to evaluate one more
  int64_t pass = -1;
  uint32_t last_event = kNoEvent;  // of the operator that ended last
  TextId last_scope = 0;

  Frame& push() {
    if (depth == frames.size()) frames.push_back(std::make_unique<Frame>());
    return *frames[depth++];
  }
  Frame& top() { return *frames[depth - 1]; }
  // The innermost call under way, with a frame; null: none.
  Frame* innermost() {
    if (shaped.op != nullptr) [[unlikely]]
      give_frame();
    return depth > 0 ? &top() : nullptr;
  }
  // To the shaped call, which is none any more.
  void give_frame();
  // Leaves it as clean as a new one.
  void pop() { frames[--depth]->clear(); }
  // Autograd takes itself out of the way before it calls what an operator does.
  bool is_above_autograd() const { return !keys->excluded().has(c10::DispatchKey::AutogradFunctionality); }
  // A thread that works for an operator of another one: no dispatch mode is asked there.
  bool is_hidden_worker() const { return is_worker && at::in_parallel_region(); }
  // Whether a dispatch mode may see what the innermost call calls now, though it sees that one itself.
  bool is_let_through() {
    if (shaped.op != nullptr) return shaped.autograd && is_above_autograd();
    return (top().autograd && is_above_autograd()) || top().lazy;
  }
  // Whether a call that begins now is of no interest: the common case inside a visible operator, found without a lock.
  bool ignores_calls() { return (opaque > 0 && !is_let_through()) || flags->suppressed > 0 || link == nullptr; }
};

}  // namespace ttap::torch_source
