#include "torch/empty_observer.h"

#include <memory>

namespace ttap::torch_source {
namespace {

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction&) { return nullptr; }
void end(const at::RecordFunction&, at::ObserverContext*) {}

}  // namespace

EmptyObserver::EmptyObserver()
    : handle_(at::addGlobalCallback(at::RecordFunctionCallback(&begin, &end)
                                        .needsInputs(true)
                                        .needsOutputs(true)
                                        .scopes({at::RecordScope::FUNCTION}))) {}

EmptyObserver::~EmptyObserver() { at::removeCallback(handle_); }

}  // namespace ttap::torch_source
