#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>

#include "store/foreign/npy.h"
#include "store/graph/stored_pass.h"

namespace ttap {
namespace {

class StoredSource final : public Pass::Source {
 public:
  explicit StoredSource(StoredPass pass) : pass_(std::move(pass)), opened_(pass_.tensors.size()) {
    info = pass_.info;
    for (size_t i = 0; i < pass_.tensors.size(); ++i) by_key_.emplace(to_string(tensor(i).key()), i);
  }

  size_t event_count() const override { return pass_.events.size(); }
  EventRecord event(size_t index) const override {
    const StoredEvent& event = pass_.events[index];
    EventRecord record{event.name, event.kind, event.call, event.parent, event.thread, event.time_ns, event.stack};
    record.arguments = event.arguments;
    record.results = event.results;
    record.notes = event.notes;
    record.forward = event.forward;
    record.duration_ns = event.duration_ns;
    record.returned = event.returned;
    record.use_count = static_cast<uint32_t>(event.uses.size());
    return record;
  }
  UseRecord use(size_t event, size_t index) const override {
    const StoredUse& use = pass_.events[event].uses[index];
    UseRecord record{use.role, use.path, use.tensor, use.record, use.written};
    if (!pass_.links_by_bytes || use.role != "in") return record;
    std::call_once(linked_, [this] { link(); });
    if (record.record < same_as_.size()) record.record = same_as_[record.record];
    return record;
  }

  size_t tensor_count() const override { return pass_.tensors.size(); }
  TensorRecord tensor(size_t index) const override {
    const StoredTensor& tensor = pass_.tensors[index];
    TensorRecord record;
    record.name = tensor.name;
    record.call = tensor.call;
    record.role = tensor.role;
    record.path = tensor.path;
    record.event = tensor.event;
    record.dtype = tensor.dtype;
    record.true_dtype = tensor.true_dtype;
    record.shape = tensor.shape;
    record.strides = tensor.strides;
    record.device = tensor.device;
    record.level = tensor.level;
    record.has_fingerprint = tensor.fingerprint.has_value();
    if (tensor.fingerprint) record.fingerprint = *tensor.fingerprint;
    record.has_bytes = !tensor.file.empty();
    record.byte_count = element_count({.shape = tensor.shape}) * size_of(tensor.dtype);
    record.value = tensor.value;
    record.group = tensor.group;
    return record;
  }

  std::optional<size_t> find(const Key& key) const override {
    const auto found = by_key_.find(to_string(key));
    return found == by_key_.end() ? std::nullopt : std::optional(found->second);
  }

  Result<TensorView> read(size_t index) const override {
    const StoredTensor& tensor = pass_.tensors[index];
    if (tensor.file.empty())
      return Error{.code = ErrorCode::kNotRecorded,
                   .message = fmt::format("'{}' was recorded at level '{}': its bytes were not kept",
                                          to_string(this->tensor(index).key()), to_string(tensor.level)),
                   .path = info.path.string(),
                   .hint = "record it with level full, and see `ttap ls` for what was dropped"};
    const std::lock_guard lock(mutex_);
    if (opened_[index] == nullptr) {
      TTAP_ASSIGN(opened_[index], open(tensor));
    }
    return opened_[index]->tensors.front().view();
  }

 private:
  using Opened = std::shared_ptr<const ForeignTensors>;

  // A file that was opened, with the hash of its bytes once somebody asked for it.
  struct OpenedFile {
    Opened tensors;
    std::optional<Hash128> hash = {};
  };

  // Several records may lie in one file: it is opened once, and each of them is held to it.
  Result<Opened> open(const StoredTensor& tensor) const {
    auto known = files_.find(tensor.file.string());
    if (known == files_.end()) {
      TTAP_ASSIGN(ForeignTensors read, read_npy(tensor.file));
      DType& dtype = read.tensors.front().dtype;
      if (tensor.codes && npy_lacks(tensor.dtype) && dtype == npy_bytes_dtype(tensor.dtype)) dtype = tensor.dtype;
      auto opened = std::make_shared<const ForeignTensors>(std::move(read));
      known = files_.emplace(tensor.file.string(), OpenedFile{.tensors = std::move(opened)}).first;
    }
    OpenedFile& file = known->second;
    const ForeignTensor& found = file.tensors->tensors.front();
    const auto corrupt = [&](std::string message) {
      return Error{.code = ErrorCode::kCorrupt,
                   .message = std::move(message),
                   .path = tensor.file.string(),
                   .hint = "the file was changed after it was recorded"};
    };
    if (found.dtype != tensor.dtype || found.shape != tensor.shape)
      return corrupt("the file holds another dtype or shape than the index says");
    if (tensor.fingerprint && !tensor.true_dtype) {
      if (!file.hash) file.hash = fingerprint(found.view(), {.statistics = false}).hash;
      if (*file.hash != tensor.fingerprint->hash)
        return corrupt(fmt::format("the bytes of '{}' do not match their hash", tensor.name));
    }
    return file.tensors;
  }

  void link() const {
    same_as_.resize(pass_.tensors.size());
    std::map<std::pair<uint64_t, uint64_t>, uint32_t> made;
    for (uint32_t i = 0; i < same_as_.size(); ++i) {
      same_as_[i] = i;
      const auto view = read(i);
      if (!view.ok() || element_count(*view) <= 1) continue;
      const Hash128 hash = ttap::fingerprint(*view, {.statistics = false}).hash;
      if (pass_.tensors[i].role != "in") {
        made[{hash.high, hash.low}] = i;
        continue;
      }
      const auto found = made.find({hash.high, hash.low});
      if (found == made.end()) continue;
      const StoredTensor& output = pass_.tensors[found->second];
      if (output.dtype == pass_.tensors[i].dtype && output.event != pass_.tensors[i].event) same_as_[i] = found->second;
    }
  }

  StoredPass pass_;
  std::unordered_map<std::string, size_t> by_key_;
  mutable std::mutex mutex_;  // guards the next two
  mutable std::vector<Opened> opened_;
  mutable std::unordered_map<std::string, OpenedFile> files_;
  mutable std::once_flag linked_;
  mutable std::vector<uint32_t> same_as_;  // per record, the one that holds its value
};

}  // namespace

std::vector<int64_t> npy_stored_shape(DType dtype, std::span<const int64_t> shape) {
  std::vector<int64_t> stored(shape.begin(), shape.end());
  if (const int64_t values = ttap::dtype_info(dtype).values; npy_stored_dtype(dtype) != dtype && values > 1) {
    if (stored.empty()) stored.push_back(1);
    // An index may say any length: one too long becomes negative, which no check of a shape lets through.
    stored.back() = static_cast<int64_t>(static_cast<uint64_t>(stored.back()) * static_cast<uint64_t>(values));
  }
  return stored;
}

std::unique_ptr<Pass::Source> make_stored_source(StoredPass pass) {
  return std::make_unique<StoredSource>(std::move(pass));
}

}  // namespace ttap
