#include "torch/frame.h"
#include "torch/link.h"
#include "torch/observer.h"
#include "torch/tables/notes.h"

// Where an observer asks Python.
namespace ttap::torch_source {

bool Observer::describe_subclasses(Frame& frame, bool results, std::unique_lock<SpinLock>& lock) {
  if (!python_.describe) return true;
  struct Subclass {
    const TensorPlace* place;
    PythonSide::Described described;
  };
  std::vector<Subclass> found;
  for (const TensorPlace& place : frame.places)
    if (place.tensor->key_set().has(c10::DispatchKey::Python)) found.push_back({&place, {}});
  if (found.empty()) return true;
  const std::shared_ptr<Link> link = link_;
  {
    const Unlocked unlocked(*link, lock);
    for (Subclass& each : found) each.described = python_.describe(*each.place->tensor);
  }
  if (link->observer != this) return false;
  for (const Subclass& each : found) {
    if (each.described.shows_inside && !results) frame.opaque = false;  // by then what it called has been hidden
    if (each.described.note.empty()) continue;
    const PlaceId place = results ? places_.of_result(each.place->argument, frame.result_count, each.place->item)
                                  : place_of(*frame.op, *each.place);
    std::string where(results ? "out" : "");
    where += texts_.text(places_.all()[place].path);
    frame.rare().subclasses[each.described.note].add(where, each.described.json);
  }
  return true;
}

bool Observer::call_hook(Frame& frame, c10::ArrayRef<const c10::IValue> results, std::unique_lock<SpinLock>& lock) {
  const std::shared_ptr<Link> link = link_;
  const std::string name(texts_.text(frame.call.name));
  std::string json;
  {
    const Unlocked unlocked(*link, lock);
    const std::vector<c10::IValue>& arguments = frame.rare().arguments;
    json = python_.hook(frame.op->full_name, name, c10::ArrayRef<const c10::IValue>(arguments.data(), arguments.size()),
                        *frame.op, results);
  }
  if (link->observer != this) return false;
  if (!json.empty()) frame.rare().notes.add("hook", json);
  return true;
}

}  // namespace ttap::torch_source
