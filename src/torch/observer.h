#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/util/flat_hash_map.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "capture/ops/op_log.h"
#include "capture/ops/op_sink.h"
#include "torch/gpu/gpu_taps.h"
#include "torch/python_stack.h"
#include "torch/tables/arguments.h"
#include "torch/tables/leaf_names.h"
#include "torch/tables/operators.h"
#include "torch/tables/place_table.h"
#include "torch/tables/spin_lock.h"
#include "torch/tables/tensor_table.h"
#include "torch/tables/ticks.h"

namespace ttap::torch_source {

// Which of the operators that call one another are recorded.
enum class OpView : uint8_t {
  kDispatch,  // as a dispatch mode sees them: composites are looked through, what a visible one calls is hidden
  kAll,       // every one, with who called it
  kLeaf,      // those that call no other
};

struct ObserverOptions {
  OpView view = OpView::kDispatch;
  Level level = Level::kMeta;  // of every call, unless Python decides by name
  bool inputs = true;          // arguments are kept at the call's level; else their shapes only
  bool outputs = true;         // results likewise
  bool ids = true;             // which tensor object is which, and who produced what
  bool stacks = false;         // Python's; takes the GIL for each call
  bool all_threads = true;     // else the thread that starts it, and those that work for it (autograd)
  bool compilation = false;    // what runs while torch.compile compiles
  bool unseen_writes = false;  // tensors are written to past PyTorch: each is read at each call, and at once
};

// What the source's owner is notified of, with the lock held and without the GIL.
struct OwnerSide {
  std::function<void(uint32_t number, std::string text)> new_stack;  // set: texts of stacks are wanted at once
};

// What only Python can say; each is called with the GIL, without the observer's lock, and with recording suppressed on
// that thread. None may throw.
struct PythonSide {
  // The level of a call of this name, or nothing: not recorded. Asked once per name.
  std::function<std::optional<Level>(const std::string& name)> decide;
  // Of a tensor subclass.
  struct Described {
    std::string note;           // under which it is noted: "dtensor", "fake", "classes"; empty: not at all
    std::string json;           // {"placements": …}, "the class"
    bool shows_inside = false;  // what its own code calls is shown beneath the call
  };
  std::function<Described(const at::Tensor& tensor)> describe;
  // A quantized tensor as what it consists of, each group's values before its parts; nothing for any other subclass.
  struct Part {
    std::string path;   // below the tensor's own: "", "/payload"
    at::Tensor tensor;  // undefined: its values are not known here
    std::string group;  // TensorRecord::group
    std::string why;    // it is not read
    bool are_values = false;
  };
  std::function<std::vector<Part>(const at::Tensor& tensor)> take_apart;
  // The user's: JSON to be kept, or nothing. `name` is that of the call, with the module that it runs in.
  std::function<std::string(const std::string& op, const std::string& name, c10::ArrayRef<const c10::IValue> arguments,
                            const Operator& schema, c10::ArrayRef<const c10::IValue> results)>
      hook;
};

// A RecordFunction observer that notifies a sink of what every operator of the process was given and what it made of
// it. Costs nothing before start() and after stop(). start(), stop() and the destructor need the GIL if `stacks` or any
// function of PythonSide is used; stop() waits, without it, for threads that are inside the observer.
class Observer {
 public:
  struct Counts {
    uint64_t calls = 0;
    uint64_t rejected = 0;     // by the filter
    uint64_t no_room = 0;      // the sink was full
    uint64_t compilation = 0;  // ran while torch.compile compiled
    uint64_t failed = 0;       // in our own code
    uint64_t lost = 0;         // fingerprints that a GPU could not take
    std::string first_failure = {};
  };

  Observer(const ObserverOptions& options, PythonSide python);
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  // The sink outlives the observer's activity.
  void set_sink(OpSink* sink, OwnerSide owner = {}) {
    sink_ = sink;
    keeps_meta_ = sink->keeps_meta();
    only_shapes_ =
        keeps_meta_ && options_.view == OpView::kDispatch && !options_.ids && !options_.stacks && !python_.hook;
    owner_ = std::move(owner);
  }
  // Of padded tensors on a GPU; before start().
  void set_rows(const GpuTaps::RowLimit& limit) { gpu_.set_rows(limit); }
  void start();
  void stop();

  // A module is entered or left on this thread. With `makes_event` it gets an event, with `notes` (JSON); else its
  // operators belong to the event that set_scope_event() names, or to that of the module around it.
  void enter(std::string_view name, std::string_view notes, bool makes_event);
  void set_scope_event(uint32_t event);
  void leave(bool raised);

  // A kernel that no operator stands for. `arguments` are its parameters in order: tensors by name, the rest as text.
  struct KernelArgument {
    std::string name;
    at::Tensor tensor;  // undefined: `text`
    std::string text;
  };
  void begin_kernel(std::string_view library, std::string_view name, std::vector<KernelArgument> arguments);
  void end_kernel();
  // A tensor that was made past the dispatcher and holds nothing yet.
  void not_initialised(const at::Tensor& tensor);
  // A parameter has a name: the calls that bring its gradient say so.
  void name_leaf(const at::Tensor& leaf, std::string_view name);
  // So does any tensor: the first call of each pass that uses it says so. Empty: it has none.
  void name_tensor(const at::Tensor& tensor, std::string_view name);
  std::string name_of(const at::Tensor& tensor) const;
  // It gets another number when it is seen next; until then nothing of ours refers to it.
  void forget(const at::Tensor& tensor);

  // Fingerprints of CUDA tensors that wait for others are launched: before anything that the observer does not see
  // writes to tensors, and where somebody is about to wait for them.
  void launch_waiting();
  // The same, and every value has to be read again: a graph is about to be replayed, or captured.
  void forget_values();
  // The capture on the current stream is about to end.
  void end_capture();

  // What this thread does meanwhile is not recorded; nests.
  static void suppress_recording(int by);
  // torch.compile is at work on this thread; nests.
  static void compiling(int by);
  // The pass of this thread's calls, for a recorder; -1: it has none of its own, -2: they are not to be recorded.
  void set_pass(int64_t number);
  // The pass of the calls of threads that have none of their own; -1: none.
  void set_pass_of_others(int64_t number) { pass_of_others_.store(number, std::memory_order_relaxed); }

  Counts counts() const;
  TextTable& texts() { return texts_; }
  const std::deque<TensorMeta>& metas() const { return tensors_.metas(); }
  const std::deque<OpPlace>& places() const { return places_.all(); }
  PythonStacks& stacks() { return stacks_; }

  struct Link;   // between the callbacks, which PyTorch may call at any time, and the observer
  struct Frame;  // a call under way
  struct ThreadState;

 private:
  struct Name {
    TextId text;
    std::optional<Level> level;
  };
  struct RecentName {
    uint64_t key = ~uint64_t{0};
    Name name = {};
  };
  struct Scope;
  struct Shaped;
  struct Forward {
    uint32_t event;
    TextId scope;
    int64_t pass;
  };
  struct Forwards {  // of one thread
    uint64_t first = 0;
    std::vector<Forward> by_number;  // of autograd's sequence, from `first` on
  };
  struct UseOptions {
    Level level = Level::kMeta;
    bool given = false;  // an argument, as it came
    bool written = false;
    std::string_view reason = {};  // why its bytes must not be read
  };
  friend struct CallbackBody;

  // All of these are called with the lock held. Those that return false have let go of it meanwhile and found the
  // observer stopped: nothing of it may be touched any more.
  // Pushes a frame when the call is visible; true for the range of an autograd.Function.
  bool begin(const at::RecordFunction& function, ThreadState& thread, std::unique_lock<SpinLock>& lock);
  // Where nothing but names and shapes is asked for: the same for a call that has nothing unusual, without a frame.
  enum class Shaping : uint8_t {
    kNo,      // to be taken as any other
    kHidden,  // no dispatch mode would see it
    kYes,
  };
  struct ShapesFound {
    c10::DispatchKeySet keys = {};
    bool are_usual = false;    // all of them, and the call has room for them
    bool only_tensors = true;  // nothing else is among the values

    uint64_t signature_of(c10::ArrayRef<const c10::IValue> values) const {
      return only_tensors ? only_tensors_signature(values.size()) : signature(values);
    }
  };
  // The tensors among some values; their places are numbers within these as yet.
  ShapesFound add_shapes(ShapedCall& call, c10::ArrayRef<const c10::IValue> values);
  Shaping begin_shaped(const at::RecordFunction& function, ThreadState& thread) noexcept;
  // False: it has a frame now, and is to be ended as any other.
  bool end_shaped(const at::RecordFunction& function, ThreadState& thread) noexcept;
  void end(const at::RecordFunction& function, ThreadState& thread, std::unique_lock<SpinLock>& lock);
  void finish(Frame& frame);
  void note_rare(Frame& frame);
  void enter_node(const at::RecordFunction& function, ThreadState& thread);
  void remember_forward(const at::RecordFunction& function, const Forward& forward);
  void end_function(const at::RecordFunction& function, const ThreadState& thread);
  void drop_values(Frame& frame);
  RecentName& recent_name(uint64_t key) { return recent_names_[key * 0x9E3779B97F4A7C15 >> (64 - kRecentNameBits)]; }
  const Name* find_name(const Frame& frame, const std::string& op, uint64_t key, std::unique_lock<SpinLock>& lock);
  const Name* new_name(TextId scope, bool backward, const std::string& op, uint64_t key,
                       std::unique_lock<SpinLock>& lock);
  // Where a call stands, and its name, which is there until the next one is asked for; then its beginning, with what is
  // the same for operators and kernels.
  template <class Call>
  uint64_t find_scope(Call& call, const ThreadState& thread, uint64_t number);
  void set_head(OpHead& head, const ThreadState& thread, const Frame* parent, bool backward);
  int64_t own_or_shared(int64_t pass) const;
  int64_t pass_here(const ThreadState& thread, bool backward) const;
  const Name* place_call(Frame& frame, const ThreadState& thread, const std::string& operation, uint64_t number,
                         std::unique_lock<SpinLock>& lock);
  bool begin_call(Frame& frame, const ThreadState& thread, const Frame* parent, OpKind kind, const Name& name,
                  size_t own_frames, std::unique_lock<SpinLock>& lock);
  bool take_stack(OpCall& call, std::unique_lock<SpinLock>& lock, size_t own_frames);
  void note_lazy(Frame& frame);
  void note_group(Frame& frame, c10::ArrayRef<const c10::IValue> arguments);
  void remember_generator(Frame& frame, c10::ArrayRef<const c10::IValue> arguments);
  void note_generator(Frame& frame);
  bool note_inputs(Frame& frame, std::unique_lock<SpinLock>& lock);
  void doubt(Frame& frame, const at::Tensor& tensor);
  void keep_what_stayed(Frame& frame);
  void forget_results(Frame& frame, c10::ArrayRef<const c10::IValue> results);
  void note_parts(Frame& frame, const at::Tensor& tensor, PlaceId place, uint32_t before);
  bool note_results(Frame& frame, c10::ArrayRef<const c10::IValue> results, std::unique_lock<SpinLock>& lock);
  void note_results_text(Frame& frame, c10::ArrayRef<const c10::IValue> results, size_t first_result);
  bool take_pending(Frame& frame, std::unique_lock<SpinLock>& lock);
  bool wait_for_collective(Frame& frame, c10::ArrayRef<const c10::IValue> results, std::unique_lock<SpinLock>& lock);
  bool describe_subclasses(Frame& frame, bool results, std::unique_lock<SpinLock>& lock);
  bool call_hook(Frame& frame, c10::ArrayRef<const c10::IValue> results, std::unique_lock<SpinLock>& lock);
  bool read_groups(Frame& frame, std::unique_lock<SpinLock>& lock);
  void add_part(Frame& frame, const OpTensor& whole, const PythonSide::Part& part);
  void use_tensor(Frame& frame, const at::Tensor& tensor, PlaceId place, const UseOptions& how);
  void launch_before(const Operator& op, const Frame& frame);
  void launch_before_writing(Frame& frame);
  void send_to_gpu(Frame& frame);
  // The taps in the graph that is captured on the current stream; null when none is. Asked while some graph is
  // captured.
  GraphPass* graph_here();
  void note_kernel(Frame& frame, ThreadState& thread, const Frame* parent, std::string_view library,
                   std::string_view name, std::vector<KernelArgument> arguments, std::unique_lock<SpinLock>& lock);
  void end_noted_kernel(Frame& frame, std::unique_lock<SpinLock>& lock);
  void keep_what_changed(Frame& frame, size_t first_use, size_t first_tensor);
  std::string where(PlaceId place) const;
  void note_unread(Frame& frame, PlaceId place, std::string_view reason);
  void note_name(Frame& frame, TensorTable::Object& object, PlaceId place);
  void note_sizes(Frame& frame, const at::Tensor& tensor, PlaceId place);
  PlaceId place_of(const Operator& op, const TensorPlace& place);
  void fail(const char* what);

  // Of the calling thread; null when the observer is not at work.
  ThreadState* thread_state();

  ObserverOptions options_;
  PythonSide python_;
  OwnerSide owner_;
  OpSink* sink_ = nullptr;
  bool keeps_meta_ = false;   // the sink
  bool only_shapes_ = false;  // of calls whose level does not ask for more
  std::shared_ptr<Link> link_;
  std::atomic<int> slot_{-1};
  std::atomic<int64_t> pass_of_others_{-1};

  TextTable texts_;
  PlaceTable places_;
  TensorTable tensors_;
  GpuTaps gpu_;
  unsigned forks_at_start_ = 0;
  OperatorTable operators_;
  PythonStacks stacks_;
  Ticks ticks_;
  ska::flat_hash_map<uint64_t, Name> names_;  // by scope, backward and operator
  static constexpr int kRecentNameBits = 8;
  RecentName recent_names_[1 << kRecentNameBits];  // asked before the map
  std::unordered_map<std::string, uint64_t> kernel_numbers_;
  std::unordered_map<std::string, TextId> node_notes_;  // by the name of autograd's node
  LeafNames leaves_;
  std::unordered_map<uint64_t, Forwards> forwards_;  // by thread
  uint32_t next_value_ = 1;
  std::unordered_set<uint32_t> dropped_values_;  // of a leaf view
  Counts counts_;
};

// Of the calling thread, for all observers; each nests.
struct ThreadFlags {
  int suppressed = 0;  // in code of our own
  int compiling = 0;   // torch.compile is at work
};
ThreadFlags& thread_flags();

}  // namespace ttap::torch_source
