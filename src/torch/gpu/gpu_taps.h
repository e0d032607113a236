#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "capture/graph_pass.h"
#include "capture/ops/op_sink.h"
#include "cuda/kernels/launch.h"
#include "cuda/result_pool.h"
#include "cuda/runtime/memory.h"
#include "cuda/runtime/runtime.h"

namespace ttap::torch_source {

// Fingerprints of CUDA tensors. Small ones are launched together: each waits, with its storage held so that nobody else
// gets the memory, until there are enough of them, or until something could change what they are to read. Under the
// observer's lock.
//
// Why waiting is safe: only PyTorch's operators, the kernels that Python launches, and replays of graphs write to
// tensors or reuse their memory; before each of these the observer is asked. An operator on another stream is made to
// wait for what was launched.
class GpuTaps {
 public:
  // Whether fingerprints are taken on the device at all; else tensors are copied to the host.
  static bool work();
  // Graphs are being captured, somewhere in the process.
  static bool is_capturing() { return cuda::is_capturing(); }
  // Of the stream that is current on this device.
  static uint64_t capture_of(int device);

  // Of tensors whose first axis is `padded` long only the first rows are read: as many as memory says then, which may
  // be a device's or pinned.
  struct RowLimit {
    int64_t padded = -1;
    cuda::Rows rows = {};
  };
  void set_rows(const RowLimit& limit) { rows_ = limit; }
  cuda::Rows rows_of(const TensorView& view) const {
    return !view.shape.empty() && view.shape[0] == rows_.padded ? rows_.rows : cuda::Rows{};
  }

  // Whether a tensor may wait for others. Not where holding its storage would show: autograd adds up gradients in place
  // only when nobody else has them. A large one only if it is new, or a view of a new one that waits still, and so not
  // soon written to past all operators, as caches and gathered parameters are.
  enum class Hold : uint8_t { kNo, kIfSmall, kYes };

  // A tensor's fingerprint, when its turn comes.
  // `deliver` is called when it is launched, or when it cannot be (then with nothing).
  using Deliver = std::function<void(const cuda::PendingResult& pending)>;
  cuda::PendingResult fingerprint(const at::Tensor& tensor, const TensorView& view, Level level, Hold hold,
                                  Deliver deliver);
  // The same in the graph that is captured on the current stream.
  Result<GraphPass::Tap> tap(GraphPass& graph, const at::Tensor& tensor, const TensorView& view, Level level,
                             Hold hold);

  bool waiting() const { return !batches_.empty(); }
  // Whether the next operator may have to wait for anything of ours.
  bool is_watched() const { return !batches_.empty() || !late_.empty(); }
  // An operator is about to run on the current stream of the device and to write to these.
  bool would_change(const at::Tensor& written) const;
  // Some of what waits is for another stream than the current one of its device.
  bool is_elsewhere() const;
  // Everything that waits is launched; the current streams wait for what went to others.
  void launch_all();
  // The capture on this stream is about to end: everything that waits for it is launched, on whatever stream, and comes
  // before what this one does next.
  void end_capture(int device, cuda::Stream stream);

  uint64_t lost() const { return lost_; }

 private:
  struct Waiting {
    c10::Storage storage = {};
    const void* storage_data = nullptr;
    bool is_new = false;
    cuda::FingerprintJob job;
    cuda::PendingResult pending = {};  // none: a tap in a graph
    Deliver deliver = {};
  };
  struct Batch {
    int device = 0;
    cuda::Stream stream = nullptr;
    uint64_t capture = 0;  // that the stream took part in when the first came
    void* scratch = nullptr;
    uint64_t bytes = 0;
    uint64_t most_bytes = 0;
    std::vector<Waiting> jobs;
  };
  Batch* find_batch(int device, cuda::Stream stream, uint64_t capture);
  Batch& make_batch(int device, cuda::Stream stream, uint64_t capture, void* scratch);
  void add(Batch& batch, const at::Tensor& tensor, Hold hold, Waiting waiting);
  static uint64_t hold_storage(const Batch& batch, const at::Tensor& tensor, Waiting& waiting);
  void lose(const Waiting& waiting);
  void launch(const Batch& batch, std::vector<Waiting> waiting);
  void note_late(const Batch& batch);
  static void make_wait(int device, cuda::Stream waits, cuda::Stream other);

  std::vector<std::unique_ptr<Batch>> batches_;  // with something in them; hardly ever more than one
  // Streams on which something was launched later than it came, each once.
  struct LaunchedLate {
    int device;
    cuda::Stream stream;
    uint64_t capture;
    bool operator==(const LaunchedLate&) const = default;
  };
  std::vector<LaunchedLate> late_;
  RowLimit rows_;
  uint64_t lost_ = 0;
};

}  // namespace ttap::torch_source
