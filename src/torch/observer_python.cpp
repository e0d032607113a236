#include "torch/frame.h"
#include "torch/link.h"
#include "torch/notes.h"
#include "torch/observer.h"

// Where an observer asks Python.
namespace ttap::torch_source {

bool Observer::describe_subclasses(Frame& frame, std::unique_lock<std::mutex>& lock) {
  if (!python_.describe) return true;
  struct Described {
    TextId path;
    const at::Tensor* tensor;
    std::string json;
  };
  std::vector<Described> found;
  for (const TensorPlace& place : frame.places)
    if (place.tensor->key_set().has(c10::DispatchKey::Python))
      found.push_back({path_of(*frame.op, place), place.tensor, {}});
  bool shows_inside = false;
  const std::shared_ptr<Link> link = link_;
  {
    const Unlocked unlocked(*link, lock);
    for (Described& each : found) {
      bool shows = false;
      each.json = python_.describe(*each.tensor, &shows);
      shows_inside |= shows;
    }
  }
  if (link->observer != this) return false;
  for (const Described& each : found)
    if (!each.json.empty()) frame.subclasses.add(texts_.text(each.path), each.json);
  if (shows_inside) frame.opaque = false;
  return true;
}

bool Observer::call_hook(Frame& frame, c10::ArrayRef<const c10::IValue> results, std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Link> link = link_;
  std::string json;
  {
    const Unlocked unlocked(*link, lock);
    json = python_.hook(frame.op->full_name, {frame.arguments.data(), frame.arguments.size()}, *frame.op, results);
  }
  if (link->observer != this) return false;
  if (!json.empty()) frame.notes.add("hook", json);
  return true;
}

}  // namespace ttap::torch_source
