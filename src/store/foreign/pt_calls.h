#pragma once

#include "store/foreign/pickle_machine.h"

namespace ttap {

// What the names in a .pt file's pickle mean: PyTorch's ways to rebuild a tensor and a handful of Python's
// builtin types, as data. Any other name is kForbidden, and the message says which.
class PtCalls final : public PickleHost {
 public:
  explicit PtCalls(PickleHeap& heap) : heap_(heap) {}

  Result<PickleId> name(std::string_view module, std::string_view name) override;
  Result<PickleId> call(PickleId function, PickleId arguments) override;
  Result<PickleId> persistent(PickleId id) override;
  Status set_state(PickleId object, PickleId state) override;

 private:
  Result<PickleId> rebuild_tensor(PickleId function, PickleId arguments);

  PickleHeap& heap_;
};

}  // namespace ttap
