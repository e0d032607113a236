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
#include <vector>

#include "capture/op_log.h"
#include "capture/op_sink.h"
#include "torch/arguments.h"
#include "torch/operators.h"
#include "torch/python_stack.h"
#include "torch/tensor_table.h"

namespace ttap::torch_source {

// Which of the operators that call one another are recorded.
enum class OpView : uint8_t {
  kDispatch,  // as a dispatch mode sees them: composites are looked through, what a visible one calls is hidden
  kAll,       // every one, with who called it
  kLeaf,      // those that call no other
};

struct ObserverOptions {
  OpView view = OpView::kDispatch;
  bool inputs = true;    // arguments are kept at the call's level; else their shapes only
  bool outputs = true;   // results likewise
  bool ids = true;       // which tensor object is which, and who produced what
  bool stacks = false;   // Python's; takes the GIL for each call
  bool all_threads = true;  // else the thread that starts it, and those that work for it (autograd)
  bool compilation = false;  // what runs while torch.compile compiles
};

// What only Python can say; each is called with the GIL, without the observer's lock, and with the observer deaf on that
// thread. None may throw.
struct PythonSide {
  // The level of a call of this name, or nothing: not recorded. Asked once per name.
  std::function<std::optional<Level>(const std::string& name)> decide;
  // For a tensor subclass: JSON about it ({"class": …, "placements": …}), and whether what its own code calls is shown.
  std::function<std::string(const at::Tensor& tensor, bool* shows_inside)> describe;
  // The user's: JSON to be kept, or nothing.
  std::function<std::string(const std::string& op, c10::ArrayRef<const c10::IValue> arguments, const Operator& schema,
                            c10::ArrayRef<const c10::IValue> results)>
      hook;
};

// A RecordFunction observer that tells a sink what every operator of the process was given and what it made of it.
// Costs nothing before start() and after stop(). start(), stop() and the destructor need the GIL if `stacks` or any
// function of PythonSide is used; stop() waits, without it, for threads that are inside the observer.
class Observer {
 public:
  struct Counts {
    uint64_t calls = 0;
    uint64_t rejected = 0;     // by the filter
    uint64_t no_room = 0;      // the sink was full
    uint64_t compilation = 0;  // ran while torch.compile compiled
    uint64_t failed = 0;       // in our own code
    std::string first_failure = {};
  };

  Observer(const ObserverOptions& options, PythonSide python);
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  // The sink outlives the observer's activity.
  void set_sink(OpSink* sink) { sink_ = sink; }
  void start();
  void stop();

  // A module is entered or left on this thread. `parent` is the event that the sink's owner made for it, or kNoEvent:
  // then the observer makes one, with `notes` (JSON).
  void enter(std::string_view name, std::string_view notes, bool makes_event);
  void leave();

  // A kernel that no operator stands for. `arguments` are its parameters in order: tensors by name, the rest as text.
  struct KernelArgument {
    std::string name;
    at::Tensor tensor;  // undefined: `text`
    std::string text;
  };
  void begin_kernel(std::string_view library, std::string_view name, std::vector<KernelArgument> arguments);
  void end_kernel();

  // What this thread does meanwhile is not recorded; nests.
  static void deafen(int by);
  // torch.compile is at work on this thread; nests.
  static void compiling(int by);
  // The pass of this thread's calls, for a recorder; -1: none.
  void set_pass(int64_t number);

  Counts counts() const;
  TextTable& texts() { return texts_; }
  const std::deque<TensorMeta>& metas() const { return tensors_.metas(); }
  PythonStacks& stacks() { return stacks_; }
  uint64_t under_way() const;

  struct Link;      // between the callbacks, which PyTorch may call at any time, and the observer
  struct Frame;     // a call under way
  struct ThreadState;

 private:
  struct Name {
    TextId text;
    std::optional<Level> level;
  };
  struct Scope;
  struct Forward {
    uint32_t event;
    TextId scope;
  };

  // Called with the lock held.
  bool begin(const at::RecordFunction& function, ThreadState& thread, std::unique_lock<std::mutex>& lock);
  void end(const at::RecordFunction& function, ThreadState& thread, std::unique_lock<std::mutex>& lock);
  friend struct Callbacks;

  const Name* name_of(TextId scope, bool backward, const std::string& op, uint64_t key,
                      std::unique_lock<std::mutex>& lock);
  void note_inputs(Frame& frame, std::unique_lock<std::mutex>& lock);
  void note_results(Frame& frame, c10::ArrayRef<const c10::IValue> results, std::unique_lock<std::mutex>& lock);
  uint32_t use_tensor(Frame& frame, const at::Tensor& tensor, TextId role, TextId path, bool written, Level level,
                      bool is_new);
  void take_pending(Frame& frame, std::unique_lock<std::mutex>& lock);
  void finish(Frame& frame, ThreadState& thread, std::unique_lock<std::mutex>& lock);
  void fail(const std::exception& error);

  ObserverOptions options_;
  PythonSide python_;
  OpSink* sink_ = nullptr;
  std::shared_ptr<Link> link_;
  int slot_ = -1;

  TextTable texts_;
  TensorTable tensors_;
  OperatorTable operators_;
  PythonStacks stacks_;
  ska::flat_hash_map<uint64_t, Name> names_;                 // by scope, backward and operator
  std::unordered_map<uint64_t, Forward> forwards_;  // by thread and sequence number of autograd
  uint32_t next_value_ = 1;
  Counts counts_;
  struct Words {
    TextId in, out, after;
  } words_;
};

}  // namespace ttap::torch_source
