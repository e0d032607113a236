#include <algorithm>

#include "torch/frame.h"
#include "torch/gpu/cuda_stream.h"
#include "torch/link.h"
#include "torch/observer_inl.h"
#include "torch/tables/notes.h"
#include "torch/tensor_bytes.h"

// The tensors of a call: which they are, which value they hold, and reading them.
namespace ttap::torch_source {
namespace {

constexpr std::string_view kNotCopied = "its bytes could not be copied to the host";
constexpr std::string_view kUnderWay = "a collective that has not been waited for";
constexpr std::string_view kUninitialised = "not initialised";
constexpr std::string_view kScratch = "memory of the backward, which may hold anything";
constexpr std::string_view kPerhapsUninitialised = "not initialised, unless the kernel that calls this did so";

bool any_subclass(const std::vector<TensorPlace>& places) {
  for (const TensorPlace& place : places)
    if (place.tensor->key_set().has(c10::DispatchKey::Python)) return true;
  return false;
}

}  // namespace

PlaceId Observer::place_of(const Operator& op, const TensorPlace& place) {
  const Operator::Argument& argument = op.arguments[place.argument];
  if (place.item < 0) return argument.place;
  return places_.of(places_.in(), std::string(texts_.text(argument.path)) + "/" + std::to_string(place.item));
}

// A value that is new, though calls that were recorded made it: they wrote to a part of the tensor, or to one that it
// is a part of, or the value could not be read when they did (`before`; 0: none). They become uses of role `part`.
void Observer::note_parts(Frame& frame, const at::Tensor& tensor, PlaceId place, uint32_t before) {
  const auto add = [&](uint32_t value) {
    if (dropped_values_.contains(value)) return;
    const PlaceId part = places_.of(places_.part(), places_.all()[place].path);
    frame.rare().parts.push_back({.place = part, .tensor = kNoNumber, .value = value});
  };
  if (before != 0) {
    add(before);
    return;
  }
  for (const uint32_t value : tensors_.writes_to(tensor)) add(value);
}

void Observer::use_tensor(Frame& frame, const at::Tensor& tensor, PlaceId place, const UseOptions& how) {
  OpUse& use = frame.call.uses.emplace_back(OpUse{.place = place, .written = how.written});
  tensors_.set_pass(frame.call.pass);  // another thread may have been here meanwhile
  const bool is_usual = TensorTable::is_usual(*tensor.unsafeGetTensorImpl());
  const MetaId meta = tensors_.meta_of(tensor);
  if (!is_usual) [[unlikely]]
    note_sizes(frame, tensor, place);
  std::string_view reason = how.reason;
  std::optional<TensorTable::Known> known;
  if (reason.empty() && how.level != Level::kMeta && tensors_.is_under_way(tensor)) reason = kUnderWay;
  if (options_.ids) {
    TensorTable::Object& object = tensors_.object_of(tensor);
    use.tensor = object.number;
    if (object.name != 0 && object.named_in != frame.call.pass) [[unlikely]]
      note_name(frame, object, place);
    if (reason.empty() && how.level != Level::kMeta && tensors_.is_uninitialised(tensor))
      reason = frame.in_kernel ? kPerhapsUninitialised : kUninitialised;
    known = tensors_.value_of(tensor, meta);
    const bool dropped = known && !dropped_values_.empty() && dropped_values_.contains(known->value);
    if (known && !dropped && (known->is_read || how.level == Level::kMeta || !reason.empty())) {
      use.value = known->value;
      return;
    }
    if (dropped) known.reset();
    if (known && frame.is_pending(known->value)) {  // an argument twice
      use.value = known->value;
      return;
    }
  }
  const uint32_t value = use.value = next_value_++;
  if (options_.ids) {
    if (how.given) note_parts(frame, tensor, place, known ? known->value : 0);
    tensors_.set_value(tensor, meta, value);
  }
  if (how.level == Level::kMeta && keeps_meta_) {
    OpTensor& kept = frame.call.tensors.emplace_back();
    kept.place = place;
    kept.meta = meta;
    kept.value = value;
    return;
  }
  OpTensor record{.place = place, .meta = meta, .value = value, .asked = how.level};
  bool is_subclass = false;
  if (how.level != Level::kMeta) {
    if (reason.empty()) reason = unreadable(tensor);
    is_subclass = reason == kSubclass && python_.take_apart;
    if (!reason.empty() && !is_subclass) {
      record.asked = Level::kMeta;
      note_unread(frame, place, reason);
    }
  }
  if (record.asked == Level::kMeta && keeps_meta_) {
    frame.call.tensors.push_back(record);
    return;
  }
  Frame::Pending& pending =
      frame.add_pending(record, tensors_.metas()[record.meta], places_.all()[record.place], texts_);
  if (record.asked == Level::kMeta) return;
  pending.tensor = tensor;
  pending.is_subclass = is_subclass;
  if (!options_.ids || is_subclass) return;
  if (const Fingerprint* fingerprint = tensors_.fingerprint_of(tensor, meta)) pending.known = *fingerprint;
}

// As notes say it: `/0`, `out/1`.
std::string Observer::where(PlaceId place) const {
  const OpPlace& words = places_.all()[place];
  const std::string_view role = words.role == places_.in() ? std::string_view{} : texts_.text(words.role);
  return std::string(role).append(texts_.text(words.path));
}

void Observer::note_unread(Frame& frame, PlaceId place, std::string_view reason) {
  frame.rare().unread.add(where(place), json_string(reason));
}

// Once in each pass: the number says which tensor it is in all other calls.
void Observer::note_name(Frame& frame, TensorTable::Object& object, PlaceId place) {
  object.named_in = frame.call.pass;
  frame.rare().names.add(where(place), json_string(texts_.text(object.name)));
}

void Observer::note_sizes(Frame& frame, const at::Tensor& tensor, PlaceId place) {
  const std::string sizes = TensorTable::sizes_text(tensor);
  if (!sizes.empty()) frame.rare().sizes.add(where(place), json_string(sizes));
}

bool Observer::note_inputs(Frame& frame, std::unique_lock<SpinLock>& lock) {
  const Operator& op = *frame.op;
  const Level level = options_.inputs ? frame.call.level : Level::kMeta;
  const bool doubtful = (frame.in_kernel || options_.unseen_writes) && level != Level::kMeta;
  for (const TensorPlace& place : frame.places) {
    const PlaceId where = place_of(op, place);
    const Operator::Argument& argument = op.arguments[place.argument];
    // Kernels reserve memory past the dispatcher.
    if (doubtful && frame.in_kernel && options_.ids && !tensors_.knows_storage(*place.tensor))
      tensors_.set_uninitialised(*place.tensor, true);
    if (doubtful && !argument.target) doubt(frame, *place.tensor);
    const bool written = argument.written && frame.trains;
    // What is in the target of an out= before is of no interest, and not the same in two runs.
    use_tensor(frame, *place.tensor, where,
               {.level = argument.target ? Level::kMeta : level, .given = true, .written = written});
    if (written) [[unlikely]]
      frame.rare().written.push_back({.tensor = *place.tensor, .path = places_.all()[where].path});
  }
  const bool attached = !frame.has_rare || take_pending(frame, lock);
  if (attached && doubtful) keep_what_stayed(frame);
  frame.forget_places();
  return attached;
}

// A kernel may have written to what it calls others with, which nobody reports: it is read again.
void Observer::doubt(Frame& frame, const at::Tensor& tensor) {
  const MetaId meta = tensors_.meta_of(tensor);
  tensors_.set_pass(frame.call.pass);
  const auto known = tensors_.value_of(tensor, meta);
  const bool is_kept = known && known->is_read && !dropped_values_.contains(known->value);
  const Fingerprint* fingerprint = is_kept ? tensors_.fingerprint_of(tensor, meta) : nullptr;
  if (fingerprint != nullptr)
    frame.rare().doubted.push_back(
        {.use = static_cast<uint32_t>(frame.call.uses.size()), .value = known->value, .hash = fingerprint->hash});
  tensors_.doubt(tensor);
}

// What has the same bits still is the value that it was.
void Observer::keep_what_stayed(Frame& frame) {
  if (!frame.has_rare) return;
  OpCall& call = frame.call;
  for (const Frame::Doubted& each : frame.rare().doubted) {
    OpUse& use = call.uses[each.use];
    const auto taken = std::ranges::find(call.tensors, use.value, &OpTensor::value);
    if (taken == call.tensors.end() || taken->fingerprint == kNoNumber ||
        call.fingerprints[taken->fingerprint].hash != each.hash)
      continue;
    const at::Tensor& tensor = *frame.places[each.use].tensor;
    tensors_.keep_value(tensor, taken->meta, each.value);
    use.value = each.value;
    call.tensors.erase(taken);
  }
  frame.rare().doubted.clear();
}

// Others may have seen the results of a kernel before it wrote to them; so do some composites, though not to what
// others have made.
void Observer::forget_results(Frame& frame, c10::ArrayRef<const c10::IValue> results) {
  if (frame.op->is_view || frame.op->fills_nothing) return;
  frame.collect(results);
  for (const TensorPlace& place : frame.places)
    if (frame.is_kernel || tensors_.is_uninitialised(*place.tensor)) tensors_.written(*place.tensor);
  frame.forget_places();
}

inline void Observer::note_results_text(Frame& frame, c10::ArrayRef<const c10::IValue> results, size_t first_result) {
  if (results.empty()) return;
  frame.call.results = frame.op->result_texts.of(frame.signature_of(results) + first_result, [&] {
    return texts_.intern(results_text(*frame.op, results, first_result));
  });
}

bool Observer::note_results(Frame& frame, c10::ArrayRef<const c10::IValue> results, std::unique_lock<SpinLock>& lock) {
  Operator& op = *frame.op;
  if (op.is_c10d && !wait_for_collective(frame, results, lock)) return false;
  if (options_.ids && frame.has_rare)
    for (const Frame::Written& written : frame.rare().written) {
      const bool still_unwritten = op.moves_nothing && tensors_.is_uninitialised(written.tensor);
      tensors_.written(written.tensor);
      if (still_unwritten) tensors_.set_uninitialised(written.tensor, true);
    }
  const size_t first_result = frame.call.uses.size();
  frame.collect(results);
  frame.result_count = static_cast<uint32_t>(results.size());
  const bool has_subclasses = any_subclass(frame.places);
  if (has_subclasses && !describe_subclasses(frame, true, lock)) return false;
  if (op.is_wait)
    for (const TensorPlace& place : frame.places) tensors_.written(*place.tensor);
  // The bytes of a view are its argument's: no result of this call.
  const bool wanted = options_.outputs && (options_.inputs || !op.is_view);
  UseOptions how{.level = wanted ? frame.call.level : Level::kMeta};
  const bool comes_later = frame.has_rare && frame.rare().is_over;
  if (op.result_comes_later || comes_later) how.reason = kUnderWay;
  if (op.is_receive) how.reason = "a receive that has not been waited for";
  if (op.fills_nothing) how.reason = kUninitialised;
  const std::string_view reason = how.reason;
  for (const TensorPlace& place : frame.places) {
    const bool scratch = op.scratch_results != 0 && (op.scratch_results >> place.argument & 1) != 0;
    if (scratch && options_.ids) tensors_.set_uninitialised(*place.tensor, true);
    how.reason = scratch ? kScratch : reason;
    use_tensor(frame, *place.tensor, places_.of_result(place.argument, results.size(), place.item), how);
    if (frame.has_rare)
      for (Frame::Written& written : frame.rare().written) written.returned |= written.tensor.is_same(*place.tensor);
    if (op.fills_nothing && options_.ids) tensors_.set_uninitialised(*place.tensor, true);
    if (op.result_comes_later) tensors_.set_under_way(*place.tensor);
  }
  how.reason = reason;
  if (frame.has_rare)
    for (const Frame::Written& written : frame.rare().written) {
      if (!written.returned) use_tensor(frame, written.tensor, places_.of(places_.after(), written.path), how);
      if (!options_.ids) continue;
      if (const auto value = tensors_.value_of(written.tensor, tensors_.meta_of(written.tensor)))
        tensors_.add_write(written.tensor, value->value);
      if (comes_later) tensors_.set_under_way(written.tensor, frame.rare().is_over);
    }
  note_results_text(frame, results, first_result);
  const bool attached = !frame.has_rare || take_pending(frame, lock);
  frame.forget_places();
  if (frame.has_rare) frame.rare().written.clear();
  return attached;
}

bool Observer::take_pending(Frame& frame, std::unique_lock<SpinLock>& lock) {
  std::vector<Frame::Pending>& all = frame.rare().pending;
  if (all.empty()) return true;
  if (!read_groups(frame, lock)) return false;
  send_to_gpu(frame);
  const size_t first = frame.call.tensors.size();
  const auto take_all = [&] {
    for (Frame::Pending& each : all) {
      if (each.way == Frame::Way::kDelivered) {
        frame.call.tensors.push_back(each.record);
        continue;
      }
      TensorView view{nullptr, each.meta->dtype, each.meta->shape, each.meta->strides};
      OpTensorSource source{.view = view,
                            .role = each.role,
                            .path = each.path,
                            .device = each.device,
                            .group = each.group,
                            .known = each.known ? &*each.known : nullptr,
                            .on_gpu = {each.later, each.tap}};
      TensorBytes bytes;
      if (each.way == Frame::Way::kCopied) {
        const int device = each.tensor.device().index();
        const cuda::Rows rows = gpu_.rows_of(view);
        source.gpu = OnGpu{.device = device,
                           .stream = CudaStreams::current(device),
                           .rows = rows.count,
                           .rows_are_64_bit = rows.is_64_bit};
        source.view.data = each.tensor.const_data_ptr();
      } else if (each.way == Frame::Way::kRead && each.tensor.defined()) {
        source.view.data = bytes.of(each.tensor, source.view);
        each.is_lost = source.view.data == nullptr && each.meta->byte_count > 0;
        if (each.is_lost) each.record.asked = Level::kMeta;
      }
      sink_->take(frame.call, each.record, source);
    }
  };
  const bool reads = std::any_of(all.begin(), all.end(), [](const Frame::Pending& each) {
    return each.tensor.defined() && !each.known && (each.way == Frame::Way::kRead || each.way == Frame::Way::kCopied);
  });
  if (!reads) {
    take_all();
  } else {
    const std::shared_ptr<Link> link = link_;
    {
      const Unlocked unlocked(*link, lock);
      take_all();
    }
    if (link->observer != this) {
      all.clear();
      return false;
    }
  }
  for (const Frame::Pending& each : all)
    if (each.is_lost) note_unread(frame, each.record.place, kNotCopied);
  if (options_.ids)
    for (size_t i = 0; i < all.size(); ++i) {
      const Frame::Pending& each = all[i];
      if (each.record.asked != Level::kMeta) tensors_.set_read(each.tensor, each.record.meta);
      const OpTensor* taken = first + i < frame.call.tensors.size() ? &frame.call.tensors[first + i] : nullptr;
      if (taken != nullptr && taken->fingerprint != kNoNumber)
        tensors_.set_fingerprint(each.tensor, taken->meta, frame.call.fingerprints[taken->fingerprint]);
    }
  all.clear();
  return true;
}

}  // namespace ttap::torch_source
