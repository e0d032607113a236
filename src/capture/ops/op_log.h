#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/graph_passes.h"
#include "capture/ops/op_sink.h"
#include "capture/ops/row_blocks.h"
#include "ttap/api.h"
#include "ttap/result.h"

namespace ttap {

struct OpLogOptions {
  uint64_t limit_bytes = uint64_t{4} << 30;  // of memory for everything that is logged
};

// Operator calls in memory, about 100 bytes each; save() makes a run of them. The lock is the source's: one thread at a
// time, but for take().
class TTAP_API OpLog : public OpSink {
 public:
  // What the tables hold is the source's.
  OpLog(const TextTable& texts, const std::deque<TensorMeta>& metas, const std::deque<OpPlace>& places,
        const OpLogOptions& options);

  void begin(OpCall& call) override;
  void end(OpCall& call) override;
  void take_back(OpCall& call) override;
  void begin_shaped(ShapedCall& call) override;
  void end_shaped(const ShapedCall& call) override;
  void take(OpCall& call, const OpTensor& tensor, const OpTensorSource& source) override;
  bool keeps_meta() const override { return true; }
  bool shares_fingerprints() const override { return true; }
  GraphPass* graph(int device, cuda::Stream stream) override;
  void end_capture(cuda::Stream stream) override;

  uint64_t size() const { return calls_.size(); }
  uint64_t tensor_count() const { return shapes_.size() + tensors_.size(); }
  // Of memory; texts and metas, which are the source's, not counted.
  uint64_t bytes() const { return bytes_; }
  uint64_t under_way() const { return begun_ - taken_back_ - calls_.size(); }

  // Takes the fingerprints that were on their way, and the replays that have come: after the source has stopped, and
  // the devices are done with what was asked of them. Replays after it record nothing.
  void settle();
  uint64_t replays() const;
  uint64_t lost_replays() const;
  uint64_t lost_fingerprints() const { return lost_fingerprints_; }

  // Writes it as a run (see RecorderOptions::directory): a pass, number 0 or the next one that is free, and behind it
  // one for each replay of a graph that was captured meanwhile. Returns the rank's directory. The log stays as it is.
  // After settle().
  struct SaveOptions {
    std::string metadata_json = "{}";  // about the program
    std::string source_json = {};      // about what was not seen
    bool append = false;               // as RecorderOptions::append
    uint64_t dropped_events = 0;
    std::vector<std::string> stacks = {};  // the text of stack number N is stacks[N - 1]
  };
  Result<std::filesystem::path> save(const std::filesystem::path& directory, const SaveOptions& options) const;

 private:
  static constexpr int kCountBits = 22;
  static constexpr uint32_t kMostCount = (uint32_t{1} << kCountBits) - 1;
  struct Call {
    uint32_t number;
    TextId name;
    uint32_t parent;
    uint32_t forward;
    uint32_t stack;
    TextId arguments;
    TextId results;
    TextId notes;
    uint32_t thread;  // index into threads_
    uint32_t first_use;
    uint32_t first_tensor;
    uint32_t duration_ns;
    // Together one word, which is stored at once.
    uint64_t use_count : kCountBits;
    uint64_t tensor_count : kCountBits;
    uint64_t kind : 3;         // OpKind
    uint64_t only_shapes : 1;  // first_use is of shapes_, each of which is both
    uint64_t graph : 16;       // graph_index(), or 0
    uint64_t start_ns;
  };
  static_assert(sizeof(Call) == 64);
  struct Use {
    PlaceId place;
    uint32_t tensor;
    uint32_t value_written;  // value, and in the lowest bit whether it is written
  };
  struct Tensor {
    PlaceId place;
    MetaId meta;
    uint32_t value;
    uint32_t fingerprint;  // index, or kNoNumber
    uint32_t bytes;        // index, or kNoNumber
    Level asked;
    uint32_t tap;  // of its call's graph, or kNoTap
  };
  struct Awaited {
    uint64_t tensor;  // index
    cuda::PendingResult result;
  };
  struct Twin {
    uint64_t tensor;  // index
    uint32_t same_as;
  };
  struct Replay {
    uint16_t graph;  // as Call::graph
    uint64_t unix_ns;
    std::vector<std::optional<Fingerprint>> fingerprints;  // by tap; none where its launch failed
  };
  class Saving;

  // The last thread is nearly always the same.
  uint32_t thread_of(uint64_t number) {
    return !threads_.empty() && threads_[last_thread_] == number ? last_thread_ : find_thread(number);
  }
  uint32_t find_thread(uint64_t number);
  Call& add_row(const OpHead& call, size_t uses, size_t tensors, bool only_shapes);
  void keep_more(OpCall& call, const OpTensor& tensor, Tensor& row);
  void add_bytes(uint64_t bytes) {
    bytes_ += bytes;
    if (bytes_ >= look_at_) [[unlikely]]
      look_at_limit();
  }
  void look_at_limit();
  uint16_t graph_index(const GraphPass& graph);
  enum class Wait : uint8_t { kForNone, kForAll };
  void take_what_has_arrived(Wait wait);
  void settle_twins();
  bool take_replay(GraphPass& graph);
  Status save_pass(const std::filesystem::path& path, uint32_t number, const std::string& metadata_json,
                   const SaveOptions& options, const Replay* replay, Report& report) const;

  const TextTable& texts_;
  const std::deque<TensorMeta>& metas_;
  const std::deque<OpPlace>& places_;
  OpLogOptions options_;
  uint64_t started_unix_ns_;
  uint64_t started_ns_;
  uint32_t begun_ = 0;
  uint32_t taken_back_ = 0;
  uint64_t bytes_ = 0;
  uint64_t look_at_ = 0;  // when there are that many, the limit is looked at
  RowMemory memory_;
  RowBlocks<Call> calls_{memory_};  // in the order in which they ended
  RowBlocks<OpShape> shapes_{memory_};
  RowBlocks<Use> uses_{memory_};
  RowBlocks<Tensor> tensors_{memory_};
  std::unordered_map<size_t, TextId> groups_;  // of tensors, by index: few have one
  RowBlocks<Fingerprint> fingerprints_{memory_};
  std::deque<std::vector<std::byte>> blobs_;
  std::vector<uint64_t> threads_;
  uint32_t last_thread_ = 0;
  std::deque<Awaited> awaited_;  // in the order in which they were asked for
  std::vector<Twin> twins_;      // of those
  uint64_t lost_fingerprints_ = 0;

  mutable std::mutex replays_mutex_;   // guards the next three: replays are taken by a thread of their own
  std::vector<uint64_t> graph_order_;  // numbers of graphs, as they were met
  std::deque<Replay> replays_;
  uint64_t replay_bytes_ = 0;
  GraphPasses graphs_;  // the last member: its thread uses the others
};

}  // namespace ttap
