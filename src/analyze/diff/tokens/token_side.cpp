#include "analyze/diff/tokens/token_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "analyze/diff/sides/merged_events.h"
#include "analyze/diff/tokens/row_layout.h"

namespace ttap {
namespace {

// A tensor of several passes, each of which has some of its rows.
struct RowTensor {
  std::vector<uint32_t> records = {};   // per pass; MergedOrder::kNone where it has none
  std::vector<RowLayout> layouts = {};  // per pass, as far as it has one
  bool whole = false;                   // not made of rows: a parameter, from the pass that has most of it
  bool only_logits = false;             // the rows that have logits
  std::vector<int64_t> shape = {};
  Fingerprint fingerprint = {};
  bool has_bytes = false;
  uint32_t event = kNoEvent;

  uint64_t width() const { return layouts.empty() ? 0 : first_layout().width(); }
  uint32_t first_pass() const {
    return static_cast<uint32_t>(
        std::ranges::find_if(records, [](uint32_t record) { return record != MergedOrder::kNone; }) - records.begin());
  }
  const RowLayout& first_layout() const { return layouts[first_pass()]; }
};

// The rows that a tensor is made of: by pass, each with its row there.
struct Rows {
  size_t count = 0;
  std::map<uint32_t, std::vector<std::pair<size_t, uint32_t>>> by_pass = {};
};

struct LogitsTensors {
  std::set<std::string> keys = {};
  std::set<uint64_t> widths = {};
  bool empty() const { return keys.empty(); }
};

bool says_tokens(const Side& side, uint32_t event) {
  if (event >= side.event_count()) return false;
  const std::string_view kind = side.event(event).kind;
  return kind == kBatchEvent || kind == kLogprobsEvent;
}

// An integer of an op outside every module says where rows lie in this step, not what is in them.
bool is_of_packing(const Side& side, const TensorRecord& record) {
  if (dtype_info(record.dtype).kind == DTypeKind::kFloat || record.event >= side.event_count()) return false;
  const EventRecord event = side.event(record.event);
  return event.kind == "op" && event.parent == kNoEvent;
}

class TokenSide final : public Side {
 public:
  // `places`: where this side computed each token.
  TokenSide(TokenPasses passes, const std::vector<TokenPlace>& places)
      : sides_(std::move(passes.sides)), rows_(std::move(passes.rows)), places_(places) {
    std::set<uint32_t> used;
    for (const TokenPlace& place : places_) used.insert(place.pass);
    passes_.assign(used.begin(), used.end());
    // They come last: the order of the modules is that of the calls.
    for (std::shared_ptr<const Side>& weights : passes.weights) {
      passes_.push_back(static_cast<uint32_t>(sides_.size()));
      sides_.push_back(std::move(weights));
      rows_.emplace_back();
    }
    info_ = side(0).info();
    std::vector<const Side*> merged;
    for (size_t pass = 0; pass < passes_.size(); ++pass) {
      if (pass > 0) add_pass(info_, side(pass).info());
      merged.push_back(&side(pass));
    }
    events_.emplace(std::move(merged));
    merge_tensors();
  }

  uint64_t left_out() const { return left_out_; }
  // What holds only rows with logits: by key, and by a width that nothing else has.
  LogitsTensors logits_tensors() const {
    LogitsTensors found;
    for (const RowTensor& tensor : tensors_)
      if (tensor.only_logits) {
        found.keys.insert(key_of(tensor));
        found.widths.insert(tensor.width());
      }
    for (const RowTensor& tensor : tensors_)
      if (!tensor.only_logits && !tensor.whole) found.widths.erase(tensor.width());
    return found;
  }
  bool has_logits(size_t token) const { return places_[token].has_logits; }

  // Chooses the rows: those of all tokens, or of `logits` where they are all that this side or the other has.
  void choose_rows(const std::vector<uint32_t>& logits, const LogitsTensors& other, unsigned threads) {
    for (uint32_t i = 0; i < places_.size(); ++i) add_row(all_, i);
    for (const uint32_t token : logits) add_row(logits_, token);
    for (RowTensor& tensor : tensors_) {
      if (tensor.whole) continue;
      tensor.only_logits =
          tensor.only_logits || other.widths.contains(tensor.width()) || other.keys.contains(key_of(tensor));
      const auto count = static_cast<int64_t>(rows_of(tensor).count);
      tensor.shape = {count, static_cast<int64_t>(tensor.width())};
    }
    std::atomic<size_t> next = 0;
    const auto work = [&] {
      for (size_t i = next++; i < tensors_.size(); i = next++) take_fingerprint(i);
    };
    std::vector<std::thread> others;
    for (unsigned i = 1; i < (threads != 0 ? threads : std::thread::hardware_concurrency()); ++i)
      others.emplace_back(work);
    work();
    for (std::thread& thread : others) thread.join();
  }

  size_t tensor_count() const override { return tensors_.size(); }
  size_t event_count() const override { return events_->size(); }
  const PassInfo& info() const override { return info_; }
  std::string place() const override { return fmt::format("{} passes by token", passes_.size()); }
  const ModuleFacts* module(std::string_view name) const override { return side(0).module(name); }
  const ModulesByName* optimizers() const override { return side(0).optimizers(); }

  EventRecord event(size_t index) const override { return events_->event(index); }

  UseRecord use(size_t event, size_t index) const override {
    UseRecord use = events_->use(event, index);
    const uint32_t pass = events_->side_of(event);
    if (use.record < side(pass).tensor_count()) use.record = new_tensor_[tensor_order_->entry_of(pass, use.record)];
    return use;
  }

  TensorRecord tensor(size_t index) const override {
    const RowTensor& tensor = tensors_[index];
    const uint32_t pass = tensor.first_pass();
    TensorRecord record = side(pass).tensor(tensor.records[pass]);
    record.event = tensor.event;
    if (tensor.whole) return record;
    record.shape = tensor.shape;
    record.strides = {};
    record.byte_count = byte_count({nullptr, record.dtype, record.shape, {}});
    record.has_bytes = record.has_fingerprint = tensor.has_bytes;
    record.fingerprint = tensor.fingerprint;
    return record;
  }

  Result<SideBytes> read(size_t index) const override { return read(index, nullptr); }
  Result<SideBytes> read_replica(size_t index, uint32_t rank) const override { return read(index, &rank); }

  std::string note(size_t index) const override {
    const uint32_t pass = tensors_[index].first_pass();
    return side(pass).note(tensors_[index].records[pass]);
  }

  std::optional<RecordedRows> recorded_rows(size_t index) const override {
    const RowTensor& tensor = tensors_[index];
    if (tensor.whole || tensor.layouts.empty()) return std::nullopt;
    const uint32_t pass = tensor.first_pass();
    const TensorRecord record = side(pass).tensor(tensor.records[pass]);
    RecordedRows rows{.shape = {record.shape.begin(), record.shape.end()}};
    const RowLayout& layout = tensor.layouts[pass];
    for (size_t axis = 0; axis < rows.shape.size(); ++axis)
      rows.of_tokens.push_back(layout.form == RowForm::kHeads ? axis == 0 || axis == 2 : axis < layout.axes);
    return rows;
  }

  std::vector<uint32_t> differing_replicas(size_t index) const override {
    std::set<uint32_t> ranks;
    for (uint32_t pass = 0; pass < passes_.size(); ++pass)
      if (const uint32_t record = tensors_[index].records[pass]; record != MergedOrder::kNone)
        ranks.merge(as_set(side(pass).differing_replicas(record)));
    return {ranks.begin(), ranks.end()};
  }

  std::vector<uint32_t> ranks_of(size_t index, uint64_t element) const override {
    const RowTensor& tensor = tensors_[index];
    const uint32_t first = tensor.first_pass();
    if (tensor.whole) return side(first).ranks_of(tensor.records[first], element);
    const uint64_t column = element % tensor.width();
    for (uint32_t pass = 0; pass < passes_.size(); ++pass) {
      const auto of_pass = rows_of(tensor).by_pass.find(passes_[pass]);
      if (tensor.records[pass] == MergedOrder::kNone || of_pass == rows_of(tensor).by_pass.end()) continue;
      const RowLayout& layout = tensor.layouts[pass];
      for (const auto& [to, row] : of_pass->second)
        if (to == element / tensor.width())
          return side(pass).ranks_of(
              tensor.records[pass],
              layout.begin(row_in(layout, pass, row)) + column / layout.block * layout.stride + column % layout.block);
    }
    return {};
  }

 private:
  static std::set<uint32_t> as_set(const std::vector<uint32_t>& ranks) { return {ranks.begin(), ranks.end()}; }

  // With the copy of `rank`, unless that is null.
  Result<SideBytes> read(size_t index, const uint32_t* rank) const {
    const RowTensor& tensor = tensors_[index];
    const uint32_t first = tensor.first_pass();
    const auto read_of = [&](uint32_t pass) {
      const uint32_t record = tensor.records[pass];
      return rank != nullptr ? side(pass).read_replica(record, *rank) : side(pass).read(record);
    };
    if (tensor.whole) return read_of(first);
    const DType dtype = side(first).tensor(tensor.records[first]).dtype;
    const size_t size = size_of(dtype);
    const Rows& rows = rows_of(tensor);
    SideBytes joined{.shape = tensor.shape};
    joined.owned = std::make_unique<std::byte[]>(rows.count * tensor.width() * size);
    for (uint32_t pass = 0; pass < passes_.size(); ++pass) {
      const auto of_pass = rows.by_pass.find(passes_[pass]);
      if (tensor.records[pass] == MergedOrder::kNone || of_pass == rows.by_pass.end()) continue;
      TTAP_ASSIGN(const SideBytes bytes, read_of(pass));
      if (!is_contiguous(bytes.view))
        return Error{ErrorCode::kUnsupported, "rows of a tensor with strides cannot be taken"};
      for (const auto& [to, row] : of_pass->second)
        copy_row(tensor.layouts[pass], row_in(tensor.layouts[pass], pass, row), size, bytes,
                 joined.owned.get() + to * tensor.width() * size);
    }
    joined.view = {joined.owned.get(), dtype, joined.shape, {}};
    return joined;
  }

  std::string key_of(const RowTensor& tensor) const {
    const uint32_t pass = tensor.first_pass();
    return to_string(side(pass).tensor(tensor.records[pass]).key());
  }

  const Side& side(size_t pass) const { return *sides_[passes_[pass]]; }
  const Rows& rows_of(const RowTensor& tensor) const { return tensor.only_logits ? logits_ : all_; }

  void add_row(Rows& rows, uint32_t token) const {
    rows.by_pass[places_[token].pass].emplace_back(rows.count++, places_[token].row);
  }

  // The row as the layout counts them.
  uint32_t row_in(const RowLayout& layout, uint32_t pass, uint32_t row) const {
    if (layout.form != RowForm::kLogits) return row;
    const std::vector<uint32_t>& logits = rows_[passes_[pass]].logits;
    return static_cast<uint32_t>(std::ranges::find(logits, row) - logits.begin());
  }

  static void copy_row(const RowLayout& layout, uint32_t row, size_t size, const SideBytes& from, std::byte* to) {
    const auto* data = static_cast<const std::byte*>(from.view.data) + layout.begin(row) * size;
    for (uint64_t k = 0; k < layout.blocks; ++k)
      std::memcpy(to + k * layout.block * size, data + k * layout.stride * size, layout.block * size);
  }

  void take_fingerprint(size_t index) {
    RowTensor& tensor = tensors_[index];
    if (tensor.whole || !tensor.has_bytes) return;
    const auto bytes = read(index);
    tensor.has_bytes = bytes.ok();
    if (bytes.ok()) tensor.fingerprint = fingerprint(bytes->view);
  }

  void merge_tensors() {
    std::vector<std::vector<std::string>> keys(passes_.size());
    for (size_t pass = 0; pass < passes_.size(); ++pass)
      for (size_t i = 0; i < side(pass).tensor_count(); ++i)
        keys[pass].push_back(to_string(side(pass).tensor(i).key()));
    const MergedOrder& order = tensor_order_.emplace(keys);
    new_tensor_.assign(order.size(), kNoNumber);
    for (size_t entry = 0; entry < order.size(); ++entry) {
      const auto members = order.members(entry);
      RowTensor tensor{.records = {members.begin(), members.end()}};
      if (side(tensor.first_pass()).tensor(tensor.records[tensor.first_pass()]).role == "param") keep_largest(tensor);
      const uint32_t first = tensor.first_pass();
      const TensorRecord record = side(first).tensor(tensor.records[first]);
      tensor.event = events_->event_of(first, record.event);
      if (says_tokens(side(first), record.event)) continue;
      const bool has_rows = record.role != "param" && lay_out(tensor);
      tensor.whole = record.role == "param" || (!has_rows && is_constant(tensor));
      if (!tensor.whole && (!has_rows || is_of_packing(side(first), record))) {
        ++left_out_;
        continue;
      }
      new_tensor_[entry] = static_cast<uint32_t>(tensors_.size());
      tensors_.push_back(std::move(tensor));
    }
  }

  // Whether an op was given, or made, the same in every pass: a table, a scale, a handle.
  bool is_constant(const RowTensor& tensor) const {
    const uint32_t first = tensor.first_pass();
    const TensorRecord record = side(first).tensor(tensor.records[first]);
    if (record.event >= side(first).event_count() || side(first).event(record.event).kind != "op") return false;
    for (uint32_t pass = first; pass < passes_.size(); ++pass) {
      if (tensor.records[pass] == MergedOrder::kNone) continue;
      const TensorRecord other = side(pass).tensor(tensor.records[pass]);
      if (!other.has_fingerprint || other.dtype != record.dtype || other.fingerprint.hash != record.fingerprint.hash)
        return false;
    }
    return record.has_fingerprint;
  }

  // An engine may pack a weight for its kernels, and leave an empty one.
  void keep_largest(RowTensor& tensor) const {
    const auto size = [&](uint32_t pass) {
      const uint32_t record = tensor.records[pass];
      return record == MergedOrder::kNone ? 0 : side(pass).tensor(record).byte_count;
    };
    uint32_t largest = tensor.first_pass();
    for (uint32_t pass = 0; pass < passes_.size(); ++pass)
      if (size(pass) > size(largest)) largest = pass;
    for (uint32_t pass = 0; pass < passes_.size(); ++pass)
      if (pass != largest) tensor.records[pass] = MergedOrder::kNone;
  }

  // Finds how each pass holds the rows; false where there is no one form and width for all of them, or tokens are
  // missing.
  bool lay_out(RowTensor& tensor) const {
    const uint32_t first = tensor.first_pass();
    const TensorRecord record = side(first).tensor(tensor.records[first]);
    for (const RowLayout& wanted : row_layouts(rows_[passes_[first]], record.shape)) {
      tensor.layouts.assign(passes_.size(), {});
      tensor.has_bytes = true;
      bool fits = true;
      for (size_t pass = 0; pass < passes_.size() && fits; ++pass) {
        if (tensor.records[pass] == MergedOrder::kNone) continue;
        const TensorRecord other = side(pass).tensor(tensor.records[pass]);
        const auto layouts = row_layouts(rows_[passes_[pass]], other.shape);
        const auto found = std::ranges::find_if(layouts, [&](const RowLayout& layout) {
          return layout.form == wanted.form && layout.width() == wanted.width();
        });
        fits = found != layouts.end() && other.dtype == record.dtype && other.group.empty();
        if (fits) tensor.layouts[pass] = *found;
        tensor.has_bytes = tensor.has_bytes && other.has_bytes;
      }
      tensor.only_logits = wanted.form == RowForm::kLogits;
      if (fits && has_all_tokens(tensor)) return true;
    }
    return false;
  }

  bool has_all_tokens(const RowTensor& tensor) const {
    std::map<uint32_t, bool> has;
    for (size_t pass = 0; pass < passes_.size(); ++pass)
      has[passes_[pass]] = tensor.records[pass] != MergedOrder::kNone;
    return std::ranges::all_of(
        places_, [&](const TokenPlace& place) { return has[place.pass] || (tensor.only_logits && !place.has_logits); });
  }

  std::vector<std::shared_ptr<const Side>> sides_;
  std::vector<PassRows> rows_;
  std::vector<TokenPlace> places_;
  std::vector<uint32_t> passes_;  // those that computed a token of both sides
  PassInfo info_;
  std::optional<MergedEvents> events_;
  std::optional<MergedOrder> tensor_order_;
  std::vector<RowTensor> tensors_;
  std::vector<uint32_t> new_tensor_;  // per entry of tensor_order_
  Rows all_, logits_;
  uint64_t left_out_ = 0;
};

}  // namespace

TokenSides join_tokens(TokenPasses a, TokenPasses b, const TokenPairs& pairs, unsigned threads) {
  auto side_a = std::make_shared<TokenSide>(std::move(a), pairs.a);
  auto side_b = std::make_shared<TokenSide>(std::move(b), pairs.b);
  // What one side has of tokens with logits only is compared for those.
  const LogitsTensors of_a = side_a->logits_tensors(), of_b = side_b->logits_tensors();
  std::vector<uint32_t> logits;
  for (uint32_t i = 0; i < pairs.a.size(); ++i)
    if ((of_a.empty() || side_a->has_logits(i)) && (of_b.empty() || side_b->has_logits(i))) logits.push_back(i);
  side_a->choose_rows(logits, of_b, threads);
  side_b->choose_rows(logits, of_a, threads);
  return {side_a, side_b, side_a->left_out(), side_b->left_out()};
}

}  // namespace ttap
