#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/compare/quant_picture.h"
#include "store/sources/module_facts.h"
#include "ttap/run.h"

namespace ttap {

// The bytes of a tensor of a side, and what owns them when they do not lie in a file.
struct SideBytes {
  TensorView view = {};
  std::vector<int64_t> shape = {};  // what view.shape points at where the tensor was put together
  std::vector<int64_t> strides = {};
  std::unique_ptr<std::byte[]> owned = {};
  std::vector<std::byte> decoded = {};  // of a quantized tensor
};

struct RecordedRows {
  std::vector<int64_t> shape = {};
  std::vector<bool> of_tokens = {};  // per axis
};

// One pass of one side of a comparison: the tensors of one rank in execution order, or of several put together. Reading
// from several threads is fine.
class Side {
 public:
  virtual ~Side() = default;
  virtual size_t tensor_count() const = 0;
  // A quantized tensor whose parts have their bytes has bytes here: read() decodes them.
  virtual TensorRecord tensor(size_t index) const = 0;
  virtual size_t event_count() const = 0;
  virtual EventRecord event(size_t index) const = 0;
  // A tensor among the arguments and results of an event; index below its use_count.
  virtual UseRecord use(size_t /*event*/, size_t /*index*/) const { return {}; }
  virtual Result<SideBytes> read(size_t index) const = 0;
  virtual const PassInfo& info() const = 0;
  // Where it comes from: "rank 0, pass 3", "ranks 0-1, pass 3".
  virtual std::string place() const = 0;
  // Beyond what a tensor says: how it was put together, what is wrong between its parts. Empty when there is nothing.
  virtual std::string note(size_t /*index*/) const { return {}; }
  // The ranks that hold an element of a tensor that was put together as read() gives it; nothing when it cannot be told
  // (a sum) and for a tensor of one rank's pass.
  virtual std::vector<uint32_t> ranks_of(size_t /*index*/, uint64_t /*element*/) const { return {}; }
  // Where several ranks should hold the same elements, and read() takes the first one's: those whose copy differs in a
  // bit, ascending. Which of them is right, only a comparison of each can tell.
  virtual std::vector<uint32_t> differing_replicas(size_t /*index*/) const { return {}; }
  // What read() gives, made with the copy of this rank.
  virtual Result<SideBytes> read_replica(size_t index, uint32_t /*rank*/) const { return read(index); }
  // Where the rows of tokens were put together: the shape that a tensor was recorded in, and which of its axes are
  // those of the tokens; the others lie side by side in its rows. Nothing for a tensor in its own shape.
  virtual std::optional<RecordedRows> recorded_rows(size_t /*index*/) const { return {}; }
  // What is known of a module; null when nothing is, and where ranks were put together that do not declare their
  // shards: each has its part of it.
  virtual const ModuleFacts* module(std::string_view /*name*/) const { return nullptr; }
  // By the name of a parameter, what updates it; null when nothing is known of optimizers, and where ranks were put
  // together.
  virtual const ModulesByName* optimizers() const { return nullptr; }
  // What a quantized tensor looks like, held against `twin` unless that is null. Fails for one that is not quantized,
  // or was put together.
  virtual Result<QuantPicture> picture(size_t /*index*/, const TensorView* /*twin*/) const {
    return Error{ErrorCode::kUnsupported, "it is not quantized, or was put together"};
  }
  // What quantizing did to `twin`; fails likewise.
  virtual Result<QuantStats> quant_stats(size_t /*index*/, const TensorView& /*twin*/) const {
    return Error{ErrorCode::kUnsupported, "it is not quantized, or was put together"};
  }
};

// The dtype that the program gave it; what was stored may be wider.
inline DType dtype_of(const TensorRecord& record) { return record.true_dtype.value_or(record.dtype); }

// A pass that may have got its final name since it was found.
Result<Pass> open_found_pass(const PassFile& file);

// One rank's pass as it is.
std::unique_ptr<Side> make_side(Pass pass, uint32_t rank, ModelFacts model = {});

}  // namespace ttap
