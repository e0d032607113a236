#include "analyze/diff/ranks/shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "analyze/diff/ranks/assembly.h"
#include "analyze/diff/ranks/shard_plan.h"
#include "analyze/diff/sides/merged_events.h"

namespace ttap {

namespace {

// "rank 0", "ranks 0-3, 6".
std::string ranks_text(std::span<const uint32_t> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (i > 0) text += ", ";
    text += last == i ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]);
    i = last + 1;
  }
  return text;
}

class JoinedSide final : public Side {
 public:
  JoinedSide(std::vector<RankPart> parts, const ShardRules* rules, const Side* reference) : parts_(std::move(parts)) {
    for (const RankPart& part : parts_) ranks_.push_back(part.rank);
    make_info();
    std::vector<const Side*> sides;
    for (const RankPart& part : parts_) sides.push_back(part.side.get());
    events_.emplace(std::move(sides));
    std::vector<Spreads> spreads;
    for (const RankPart& part : parts_) spreads.push_back(spreads_of(part));
    read_modules();
    ShardPlanner planner(rules, reference, std::move(spreads), !modules_.empty());
    merge_tensors(planner);
  }

  size_t tensor_count() const override { return tensors_.size(); }
  const ModuleFacts* module(std::string_view name) const override {
    const auto found = modules_.find(name);
    return found == modules_.end() ? nullptr : &found->second;
  }
  size_t event_count() const override { return events_->size(); }
  const PassInfo& info() const override { return info_; }
  std::string place() const override { return fmt::format("{}, pass {}", ranks_text(ranks_), info_.number); }

  EventRecord event(size_t index) const override { return events_->event(index); }

  UseRecord use(size_t event, size_t index) const override {
    UseRecord use = events_->use(event, index);
    const uint32_t part = events_->side_of(event);
    if (use.record < parts_[part].side->tensor_count()) use.record = tensor_order_->entry_of(part, use.record);
    return use;
  }

  TensorRecord tensor(size_t index) const override {
    const Joined& joined = tensors_[index];
    const Part& first = joined.assembly.first();
    TensorRecord record = whole_record(first.side->tensor(first.index));
    record.event = joined.event;
    if (!joined.assembly.is_whole()) {
      record.shape = joined.assembly.shape();
      record.strides = {};
      record.byte_count = byte_count({nullptr, record.dtype, record.shape, {}});
      record.has_bytes = joined.assembly.has_bytes();
    }
    if (!joined.one_hash) record.has_fingerprint = false;
    return record;
  }

  Result<SideBytes> read(size_t index) const override { return tensors_[index].assembly.read(); }
  Result<SideBytes> read_replica(size_t index, uint32_t rank) const override {
    return tensors_[index].assembly.read(&rank);
  }
  std::vector<uint32_t> differing_replicas(size_t index) const override { return copies(index).differing; }
  std::vector<uint32_t> ranks_of(size_t index, uint64_t element) const override {
    return tensors_[index].assembly.ranks_of(element, differing_replicas(index));
  }

  std::string note(size_t index) const override {
    const Joined& joined = tensors_[index];
    std::string note = joined.note;
    const auto add = [&](const std::string& more) { note += (note.empty() ? "" : "; ") + more; };
    const Assembly::Copies compared = copies(index);
    if (!compared.differing.empty()) {
      add("replicas differ: " + ranks_text(compared.differing));
      if (joined.guessed) note += " (if they are partial sums, say `sum` in a file for --shards)";
    }
    if (!compared.unknown.empty())
      add("nothing was kept to compare the replicas with: " + ranks_text(compared.unknown));
    return note;
  }

 private:
  struct Joined {
    Assembly assembly;
    uint32_t event = kNoEvent;
    bool one_hash = false;  // that of the first part is that of the whole
    bool guessed = false;
    std::string note = {};
  };

  void make_info() {
    info_ = parts_.front().side->info();
    for (const RankPart& part : std::span(parts_).subspan(1)) {
      const PassInfo& other = part.side->info();
      if (info_.problem.empty() && !other.problem.empty())
        info_.problem = fmt::format("rank {}: {}", part.rank, other.problem);
      if (other.number != info_.number)
        info_.notes.push_back(fmt::format("rank {}: this is its pass {}", part.rank, other.number));
      add_pass(info_, other);
    }
  }

  // Where no module declares shards nothing is known of any. Settings of one that is spread, or of what it is in, are
  // those of a part.
  void read_modules() {
    for (const RankPart& part : parts_)
      for (size_t i = 0; i < part.side->tensor_count(); ++i) {
        const std::string name(part.side->tensor(i).name);
        if (const ModuleFacts* facts = modules_.contains(name) ? nullptr : part.side->module(name))
          modules_.emplace(name, *facts);
      }
    bool declares = false;
    for (const auto& [name, facts] : modules_) {
      if (facts.shards.empty()) continue;
      declares = true;
      for (size_t end = name.size(); end != 0 && end != std::string::npos; end = name.rfind('.', end - 1))
        if (const auto whole = modules_.find(name.substr(0, end)); whole != modules_.end())
          whole->second.settings.clear();
    }
    if (!declares) modules_.clear();
  }

  Spreads spreads_of(const RankPart& part) {
    if (part.placements_json.empty()) return {};
    auto spreads = read_placements(part.placements_json, part.side->info().number);
    if (spreads.ok()) return std::move(spreads).value();
    info_.notes.push_back(fmt::format("rank {}: placements.json was not used: {}", part.rank, spreads.error().message));
    return {};
  }

  void merge_tensors(ShardPlanner& planner) {
    std::vector<std::vector<std::string>> keys(parts_.size());
    for (size_t part = 0; part < parts_.size(); ++part)
      for (size_t i = 0; i < parts_[part].side->tensor_count(); ++i)
        keys[part].push_back(to_string(whole_record(parts_[part].side->tensor(i)).key()));
    const MergedOrder& order = tensor_order_.emplace(keys);
    tensors_.reserve(order.size());
    for (size_t entry = 0; entry < order.size(); ++entry) {
      std::vector<Part> parts;
      std::vector<size_t> which;
      for (size_t part = 0; part < parts_.size(); ++part) {
        const uint32_t index = order.members(entry)[part];
        if (index == MergedOrder::kNone) continue;
        parts.push_back({parts_[part].side.get(), index, parts_[part].rank});
        which.push_back(part);
      }
      const uint32_t event = events_->event_of(which.front(), parts.front().side->tensor(parts.front().index).event);
      tensors_.push_back(join(planner.plan(keys[which.front()][parts.front().index], parts, which)));
      Joined& joined = tensors_.back();
      joined.event = event;
      if (which.size() < parts_.size()) {
        std::vector<uint32_t> missing;
        for (size_t part = 0; part < parts_.size(); ++part)
          if (std::ranges::find(which, part) == which.end()) missing.push_back(ranks_[part]);
        joined.note += (joined.note.empty() ? "not in " : "; not in ") + ranks_text(missing);
      }
    }
  }

  static Joined join(ShardPlan plan) {
    const Part first = plan.parts.front();
    const size_t held = plan.parts.size();
    std::string problem = plan.problem;
    if (!plan.joins.empty()) {
      auto assembly = Assembly::create(std::move(plan.parts), plan.joins);
      if (assembly.ok()) return described(std::move(assembly).value(), plan, held);
      problem = fmt::format("{} ({}) does not work: {}", joins_text(plan.joins), plan.source, assembly.error().message);
    }
    Joined joined{.assembly = Assembly(first), .one_hash = true};
    joined.note = fmt::format("only the part of rank {}: {}", first.rank, problem);
    return joined;
  }

  static Joined described(Assembly assembly, const ShardPlan& plan, size_t held) {
    Joined joined{.assembly = std::move(assembly), .guessed = plan.guessed};
    const bool replicated = joined.assembly.is_whole();
    joined.one_hash =
        replicated && !joined.assembly.comparing_reads() && joined.assembly.compare_copies().differing.empty();
    if (!plan.source.empty() && (!replicated || joined.guessed))
      joined.note = fmt::format("{} ({})", joins_text(plan.joins), plan.source);
    const auto add = [&](const std::string& more) { joined.note += (joined.note.empty() ? "" : "; ") + more; };
    if (!joined.assembly.left_out().empty())
      add(fmt::format("{} left out: other copies of the same parts", ranks_text(joined.assembly.left_out())));
    const uint64_t used = held - joined.assembly.left_out().size();
    if (used < plan.wanted) add(fmt::format("{} of {} parts", used, plan.wanted));
    if (!replicated && !joined.assembly.has_bytes()) add("parts without bytes cannot be put together");
    return joined;
  }

  static std::string joins_text(std::span<const Join> joins) {
    std::string text;
    for (const Join& join : joins) text += (text.empty() ? "" : ", ") + to_string(join);
    return text;
  }

  Assembly::Copies copies(size_t index) const {
    const Joined& joined = tensors_[index];
    if (joined.one_hash) return {};
    if (!joined.assembly.comparing_reads()) return joined.assembly.compare_copies();
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = compared_.find(index); found != compared_.end()) return found->second;
    }
    Assembly::Copies compared = joined.assembly.compare_copies();
    const std::lock_guard lock(mutex_);
    return compared_.try_emplace(index, std::move(compared)).first->second;
  }

  std::vector<RankPart> parts_;
  std::vector<uint32_t> ranks_;
  PassInfo info_;
  ModulesByName modules_;
  std::optional<MergedEvents> events_;
  std::optional<MergedOrder> tensor_order_;
  std::vector<Joined> tensors_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<size_t, Assembly::Copies> compared_;  // where it took reading
};

}  // namespace

std::unique_ptr<Side> join_ranks(std::vector<RankPart> parts, const ShardRules* rules, const Side* reference) {
  TTAP_CHECK(!parts.empty());
  std::ranges::stable_sort(parts, {}, &RankPart::rank);
  return std::make_unique<JoinedSide>(std::move(parts), rules, reference);
}

}  // namespace ttap
