#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "capture/graph_pass.h"
#include "capture/ops/text_table.h"
#include "ttap/record.h"
#include "ttap/recorder.h"
#include "ttap/tensor_view.h"

// Where a source of operator calls puts them: into memory (OpLog) or into a recording (RecorderOpSink).
namespace ttap {

enum class OpKind : uint8_t { kOp, kKernel, kModule };
constexpr std::string_view to_string(OpKind kind) {
  return kind == OpKind::kOp ? "op" : kind == OpKind::kKernel ? "kernel" : "module";
}

// dtype, device and geometry of a tensor, kept once per trace by the source.
struct TensorMeta {
  DType dtype = DType::kF32;
  TextId device = 0;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // empty: C order
  uint8_t marks = 0;             // to be read as the conjugate, the negative; the source's
  uint64_t byte_count = 0;
};
using MetaId = uint32_t;

// Role and path of a tensor within a call, kept once per trace by the source.
struct OpPlace {
  TextId role = 0;
  TextId path = 0;
};
using PlaceId = uint32_t;

struct OpUse {
  PlaceId place = 0;
  uint32_t tensor = kNoNumber;
  uint32_t value = 0;
  bool written = false;
};

// A tensor of which only dtype and shape are kept, and whose value is its own: a use and what is kept of it in one.
struct OpShape {
  PlaceId place;
  MetaId meta;
  uint32_t value;
};

// A tensor that is kept with its call.
struct OpTensor {
  PlaceId place = 0;
  MetaId meta = 0;
  uint32_t value = 0;
  Level asked = Level::kMeta;
  uint32_t fingerprint = kNoNumber;  // index into OpCall::fingerprints
  uint32_t blob = kNoNumber;         // index into OpCall::blobs
  uint32_t on_gpu = kNoNumber;       // index into OpCall::on_gpu
  TextId group = 0;                  // of the values of a quantized tensor: TensorRecord::group
  uint32_t same_as = 0;              // the value whose fingerprint it has, if that is still on its way

  // Than its dtype and shape.
  bool has_more() const { return (fingerprint & blob & on_gpu) != kNoNumber || (group | same_as) != 0; }
};

// What take() is given besides: the tensor, and texts that stay where they are.
struct OpTensorSource {
  TensorView view;  // data is null when there are no bytes to be read
  std::string_view role;
  std::string_view path;
  std::string_view device;
  std::string_view group = {};         // the text of OpTensor::group
  const Fingerprint* known = nullptr;  // its fingerprint, if the source has it already
  // On a GPU the data is not for the host to read. One of these then says what becomes of it.
  TensorOnGpu on_gpu = {};
  std::optional<OnGpu> gpu = {};  // it is to be copied, in the order of this stream
};

// What every call has.
struct OpHead {
  OpKind kind = OpKind::kOp;
  TextId name = 0;
  uint32_t parent = kNoEvent;  // numbers of events
  uint32_t forward = kNoEvent;
  uint32_t number = kNoEvent;  // given by begin()
  uint64_t thread = 0;
  uint64_t start_ns = 0;  // of the steady clock
  uint64_t end_ns = 0;
  uint32_t stack = 0;  // the source's number of it
  TextId arguments = 0;
  TextId results = 0;
  TextId notes = 0;
  int64_t pass = -1;           // the recorder's; -1: none is open
  GraphPass* graph = nullptr;  // the call is captured into this graph; set before begin()
};

// A call of which nothing is kept but names and shapes, and of which nothing is unusual.
struct ShapedCall : OpHead {
  static constexpr size_t kMost = 16;  // tensors
  uint32_t count = 0;
  OpShape shapes[kMost];
};

// Any call under way: filled by the source, kept by the thread that makes the call, used again for the next one.
struct OpCall : OpHead {
  Level level = Level::kMeta;
  std::vector<OpUse> uses = {};
  std::vector<OpTensor> tensors = {};  // taken, and not yet handed over
  std::vector<Fingerprint> fingerprints = {};
  std::vector<std::vector<std::byte>> blobs = {};  // in C order
  std::vector<TensorOnGpu> on_gpu = {};
  Event event = {};  // the recorder's, from begin() on

  // As new, but for what is set in any case before begin(), and for what take() put aside; the vectors keep their
  // memory.
  void clear() {
    parent = forward = kNoEvent;
    stack = 0;
    arguments = results = notes = 0;
    uses.clear();
    tensors.clear();
  }
  void clear_taken() {
    fingerprints.clear();
    blobs.clear();
    on_gpu.clear();
  }
};

class OpSink {
 public:
  virtual ~OpSink() = default;
  // begin() and end() are called with the source's lock held, for each call once, in this order.
  virtual void begin(OpCall& call) = 0;
  virtual void end(OpCall& call) = 0;
  // Instead of end(): the call turned out not to be wanted. Its number stays its own.
  virtual void take_back(OpCall& /*call*/) {}
  // Takes what `tensor.asked` says of the tensor, now; called between begin() and end(), perhaps without the lock.
  virtual void take(OpCall& call, const OpTensor& tensor, const OpTensorSource& source) = 0;
  // Whether a tensor of which only dtype and shape are kept may be put into OpCall::tensors without asking, and calls
  // of which nothing else is kept may be described by the next two.
  virtual bool keeps_meta() const { return false; }
  virtual void begin_shaped(ShapedCall& /*call*/) {}
  virtual void end_shaped(const ShapedCall& /*call*/) {}
  // Whether it wants a tensor whose fingerprint is on its way only when that has been launched: then by deliver(), with
  // the lock held, instead of take(). What is put in line before could hold up those behind it for ever.
  virtual bool takes_at_launch() const { return false; }
  virtual void deliver(const Event& /*event*/, const OpTensor& /*tensor*/, const OpTensorSource& /*source*/) {}
  // Whether tensors may have the fingerprint of another that is on its way: OpTensor::same_as, or the same tap.
  virtual bool shares_fingerprints() const { return false; }
  // Whether it copies the bytes of tensors on a GPU itself (OpTensorSource::gpu).
  virtual bool copies_from_gpu() const { return false; }
  // The taps of this sink in the graph that is captured on a stream; null when it cannot have any. With the lock held.
  virtual GraphPass* graph(int device, cuda::Stream stream) = 0;
  // The capture is about to end there.
  virtual void end_capture(cuda::Stream stream) = 0;
  // Whether there is no room for more: the source then counts and does not ask further.
  bool full() const { return full_; }

 protected:
  bool full_ = false;
};

}  // namespace ttap
