#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "torch/frame.h"
#include "torch/link.h"
#include "torch/observer.h"
#include "torch/tables/notes.h"

// Collectives: among whom, and when their results are there.
namespace ttap::torch_source {

void Observer::note_group(Frame& frame, c10::ArrayRef<const c10::IValue> arguments) {
  const int index = frame.op->group_argument;
  if (index < 0 || static_cast<size_t>(index) >= arguments.size()) return;
  const c10::IValue& value = arguments[static_cast<size_t>(index)];
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  try {
    group =
        value.isString() ? c10d::resolve_process_group(value.toStringRef()) : value.toCustomClass<c10d::ProcessGroup>();
  } catch (const std::exception&) {
    // One that is not registered goes by its name alone.
  }
  std::string text = value.isString() ? value.toStringRef() : std::string();
  if (group) {
    text = group->getGroupName();
    if (!group->getGroupDesc().empty()) text += " (" + group->getGroupDesc() + ")";
    text += ", rank " + std::to_string(group->getRank()) + " of " + std::to_string(group->getSize());
  }
  if (!text.empty()) frame.rare().notes.add("group", json_string(text));
}

// Whether the program has waited for a collective. It may have waited for the future of the work (as DDP does), which
// on a CPU is completed before the work is; on a GPU, before there is a result. Who drops the work has waited, or does
// not care.
template <class Written>
static std::function<bool()> is_over(const c10::intrusive_ptr<c10d::Work>& work, const Written& written) {
  c10::weak_intrusive_ptr<c10::ivalue::Future> future(c10::intrusive_ptr<c10::ivalue::Future>{});
  try {
    const bool on_cpu = !written.empty() && written.front().tensor.is_cpu();
    if (const auto given = on_cpu ? work->getFuture() : nullptr)
      future = c10::weak_intrusive_ptr<c10::ivalue::Future>(given);
  } catch (const std::exception&) {
    // Not every backend has futures.
  }
  return [waited = c10::weak_intrusive_ptr<c10d::Work>(work), future] {
    const auto alive = waited.lock();
    if (!alive || alive->isCompleted()) return true;
    const auto promised = future.lock();
    return promised && promised->completed();
  };
}

std::string reduction_text(const c10::IValue& value) try {
  constexpr const char* kNames[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"};
  if (value.type()->str().find(".ReduceOp") == std::string::npos) return {};
  const auto op = static_cast<size_t>(value.toCustomClass<c10d::ReduceOp>()->op_);
  return op < std::size(kNames) ? std::string("ReduceOp.") + kNames[op] : std::string();
} catch (const std::exception&) {
  return {};
}

// Reading the result of a collective before it is there would give what was there before. One that the program waits
// for at once is waited for here. The others are read where they are used next, after the program has waited: it may
// have to do something else first, without which the other ranks never get there. So it is with sends and receives.
bool Observer::wait_for_collective(Frame& frame, c10::ArrayRef<const c10::IValue> results,
                                   std::unique_lock<SpinLock>& lock) {
  const std::string& name = frame.op->name;
  const bool reads = options_.outputs && frame.call.level != Level::kMeta;
  const bool is_async = frame.has_rare && frame.rare().is_async;
  const bool is_point_to_point = name.find("send") != std::string::npos || name.find("recv") != std::string::npos;
  for (const c10::IValue& result : results) {
    if (!result.isCustomClass() && !result.isObject()) continue;
    c10::intrusive_ptr<c10d::Work> work;
    try {
      work = result.toCustomClass<c10d::Work>();
    } catch (const c10::Error&) {
      continue;
    }
    if (!work) continue;
    if (!reads || is_async || is_point_to_point) frame.rare().notes.add("work", json_string("not waited for"));
    if (!reads || is_point_to_point) continue;
    if (is_async) {
      frame.rare().is_over = is_over(work, frame.rare().written);
      continue;
    }
    const std::shared_ptr<Link> link = link_;
    {
      const Unlocked unlocked(*link, lock);
      try {
        work->wait();
      } catch (const std::exception&) {
        // The program will meet it when it waits.
      }
    }
    if (link->observer != this) return false;
  }
  return true;
}

}  // namespace ttap::torch_source
