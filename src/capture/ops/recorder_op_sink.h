#pragma once

#include <atomic>
#include <deque>
#include <string>
#include <vector>

#include "capture/ops/op_sink.h"
#include "ttap/api.h"
#include "ttap/recorder.h"

namespace ttap {

// Puts operator calls into a recording, each into the pass that its thread is in; calls outside any pass are counted.
// The tables are the source's. The recorder may come later than the first calls, and before the first pass.
class TTAP_API RecorderOpSink : public OpSink {
 public:
  RecorderOpSink(Recorder* recorder, const TextTable& texts, const std::deque<OpPlace>& places)
      : recorder_(recorder), texts_(texts), places_(places) {}

  void set_recorder(Recorder& recorder) { recorder_.store(&recorder); }

  void begin(OpCall& call) override;
  void end(OpCall& call) override;
  void take(OpCall& call, const OpTensor& tensor, const OpTensorSource& source) override;
  bool takes_at_launch() const override { return true; }
  void deliver(const Event& event, const OpTensor& tensor, const OpTensorSource& source) override;
  bool copies_from_gpu() const override { return true; }
  GraphPass* graph(int device, cuda::Stream stream) override;
  void end_capture(cuda::Stream stream) override;

  // The text of stack number N, which must be known before the first call that has it begins.
  void set_stack(uint32_t number, std::string text);
  uint64_t outside_passes() const { return outside_passes_; }

 private:
  std::atomic<Recorder*> recorder_;
  const TextTable& texts_;
  const std::deque<OpPlace>& places_;
  std::vector<std::string> stacks_;
  std::vector<Use> uses_;
  uint64_t outside_passes_ = 0;
};

}  // namespace ttap
