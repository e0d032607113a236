#include <fmt/format.h>

#include <unordered_map>

#include "store/sources/pass_source.h"

namespace ttap {
namespace {

class ForeignSource final : public Pass::Source {
 public:
  explicit ForeignSource(ForeignTensors file) : file_(std::move(file)) {
    for (size_t i = 0; i < file_.tensors.size(); ++i) by_key_.emplace(to_string(file_.tensors[i].key), i);
  }

  size_t event_count() const override { return 0; }
  EventRecord event(size_t) const override {
    TTAP_CHECK(false && "a foreign file has no events");
    return {};
  }
  UseRecord use(size_t, size_t) const override {
    TTAP_CHECK(false && "a foreign file has no events");
    return {};
  }
  size_t tensor_count() const override { return file_.tensors.size(); }

  TensorRecord tensor(size_t index) const override {
    const ForeignTensor& tensor = file_.tensors[index];
    TensorRecord record;
    record.name = tensor.key.name;
    record.call = tensor.key.call;
    record.role = tensor.key.role;
    record.path = tensor.key.path;
    record.dtype = tensor.dtype;
    record.true_dtype = tensor.true_dtype;
    record.shape = tensor.shape;
    record.strides = tensor.strides;
    record.group = tensor.group;
    record.has_bytes = tensor.group.empty();
    record.level = record.has_bytes ? Level::kFull : Level::kMeta;
    record.byte_count = byte_count(tensor.view());
    return record;
  }

  std::optional<size_t> find(const Key& key) const override {
    const auto found = by_key_.find(to_string(key));
    if (found == by_key_.end()) return std::nullopt;
    return found->second;
  }

  Result<TensorView> read(size_t index) const override {
    const ForeignTensor& tensor = file_.tensors[index];
    if (!tensor.group.empty())
      return Error{.code = ErrorCode::kNotRecorded,
                   .message = fmt::format("'{}' is quantized: its parts have the bytes", to_string(tensor.key)),
                   .path = info.path.string(),
                   .hint = "read its parts, or decode them"};
    return tensor.view();
  }

 private:
  ForeignTensors file_;
  std::unordered_map<std::string, size_t> by_key_;
};

}  // namespace

std::unique_ptr<Pass::Source> make_foreign_source(ForeignTensors tensors) {
  return std::make_unique<ForeignSource>(std::move(tensors));
}

}  // namespace ttap
