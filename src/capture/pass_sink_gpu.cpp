#include <algorithm>
#include <vector>

#include "capture/large_tensor.h"
#include "capture/pass_sink.h"
#include "cuda/kernels/device_result.h"

// The writer's side of tensors that were in the memory of a GPU: waits until they are here.
namespace ttap {
namespace {

const Error kNothingCame{
    .code = ErrorCode::kIo,
    .message = "tensors were lost on their way from a GPU: it has failed, or a graph was captured unseen",
    .hint = "look for the first CUDA error of the program"};

}  // namespace

void PassSink::take_awaited(Open& pass, const StagedTensor& staged) {
  StagedTensor tensor = staged;
  if (tensor.bytes != nullptr) device_staging_ = tensor.bytes;
  // Its stream does not wait for memory that the batch holds: a snapshot that stands before it there has its record
  // before this one, so what frees the room for that snapshot was handed out already.
  std::optional<cuda::DeviceResult> result;
  if (tensor.later) result = cuda::ResultPool::of_process().wait(tensor.later);
  if (!result) {
    for (bool more = tensor.bytes != nullptr; more;) more = !next_part(*tensor.bytes).last;
    const std::optional<Error> why = tensor.bytes != nullptr ? tensor.bytes->first_error() : std::nullopt;
    note(why.value_or(kNothingCame));
    return count_drop(pass, pass.writer ? &DropCounts::unsupported : pass.no_file, row_count(tensor.aliases));
  }
  tensor.payload.fingerprint = cuda::to_fingerprint(*result);
  std::vector<int64_t> shape;
  if (result->bytes < tensor.byte_count) {
    shape.assign(tensor.shape.begin(), tensor.shape.end());
    shape[0] = static_cast<int64_t>(result->bytes / (tensor.byte_count / static_cast<uint64_t>(shape[0])));
    tensor.shape = shape;
    tensor.byte_count = result->bytes;
  }
  if (tensor.bytes == nullptr) return take_tensor(pass, tensor);
  take_parts(pass, tensor);
}

// The parts may have more bytes than the tensor, when only some of its rows are alive.
void PassSink::take_parts(Open& pass, StagedTensor& tensor) {
  uint64_t left = tensor.byte_count;
  const Fingerprint fingerprint = tensor.payload.fingerprint;
  bool first = true;
  bool last = false;  // of the tensor's bytes
  bool more = true;   // parts
  while (more) {
    const cuda::DeviceStaging::Part part = next_part(*tensor.bytes);
    more = !part.last;
    if (last) continue;
    const auto bytes = part.bytes.first(std::min<uint64_t>(left, part.bytes.size()));
    left -= bytes.size();
    last = left == 0 || !more;
    const StagedPayload payload{{const_cast<std::byte*>(bytes.data()), bytes.size()}, last, fingerprint};
    if (first) {
      tensor.payload = payload;
      tensor.bytes_lost = last && (!part.sound || left > 0);
      if (tensor.bytes_lost) tensor.payload.bytes = {};
      take_tensor(pass, tensor);
      first = false;
      if (!last && !part.sound) lose_bytes_of_large(pass, &DropCounts::unsupported);
    } else {
      if (!part.sound || (last && left > 0)) lose_bytes_of_large(pass, &DropCounts::unsupported);
      take_piece(pass, payload);
    }
    if (!part.sound) note(tensor.bytes->first_error().value_or(kNothingCame));
    // A piece is in the file, and so is all that came before it.
    if (!has_batch()) tensor.bytes->release();
  }
}

cuda::DeviceStaging::Part PassSink::next_part(cuda::DeviceStaging& staging) {
  while (true) {
    if (auto part = staging.next()) return *part;
    // It waits for memory that the batch holds.
    flush();
    staging.release();
  }
}

void PassSink::lose_bytes_of_large(Open& pass, uint64_t DropCounts::*cause) {
  if (!pass.large || !pass.large->keeping) return;
  pass.large->keeping = false;
  pass.writer->abandon_large();
  count_drop(pass, cause, row_count(pass.large->staged.aliases));
}

}  // namespace ttap
