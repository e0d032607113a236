#include <fmt/format.h>

#include <map>
#include <tuple>

#include "store/foreign/group_note.h"
#include "store/foreign/logical_stream.h"
#include "store/foreign/pt.h"
#include "store/foreign/pt_names.h"
#include "store/foreign/zip_format.h"
#include "store/foreign/zip_writer.h"

namespace ttap {
namespace {

// The opcodes of pickle protocol 2 that a dictionary of tensors needs.
class PickleText {
 public:
  PickleText() { text_ = "\x80\x02"; }

  PickleText& op(std::string_view opcodes) { return text_ += opcodes, *this; }
  PickleText& name(std::string_view module, std::string_view attribute) {
    text_ += fmt::format("c{}\n{}\n", module, attribute);
    return *this;
  }
  PickleText& string(std::string_view value) {
    text_ += 'X';
    zip::append<uint32_t>(text_, static_cast<uint32_t>(value.size()));
    text_ += value;
    return *this;
  }
  PickleText& integer(int64_t value) {
    if (value >= 0 && value <= 0x7FFFFFFF) {
      text_ += 'J';
      zip::append<uint32_t>(text_, static_cast<uint32_t>(value));
    } else {
      text_ += "\x8a\x08";
      zip::append<uint64_t>(text_, static_cast<uint64_t>(value));
    }
    return *this;
  }
  PickleText& tuple(std::span<const int64_t> values) {
    text_ += '(';
    for (int64_t value : values) integer(value);
    text_ += 't';
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void append_tensor(PickleText& pickle, const TensorView& view, size_t storage) {
  const auto count = static_cast<int64_t>(element_count(view));
  const std::string_view typed = typed_storage_name(view.dtype);
  pickle.name("torch._utils", typed.empty() ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2").op("((").string("storage");
  if (typed.empty()) {
    pickle.name("torch.storage", "UntypedStorage");
  } else {
    pickle.name("torch", typed);
  }
  pickle.string(std::to_string(storage)).string("cpu");
  pickle.integer(typed.empty() ? count * static_cast<int64_t>(size_of(view.dtype)) : count).op("tQ");
  pickle.integer(0).tuple(view.shape).tuple(contiguous_strides(view.shape));
  pickle.op("\x89").name("collections", "OrderedDict").op(")R");  // requires_grad, hooks
  if (typed.empty()) pickle.name("torch", torch_dtype_name(view.dtype));
  pickle.op("tR");
}

}  // namespace

Status write_pt(const std::filesystem::path& path, std::span<const NamedTensor> tensors, std::string_view groups) {
  TTAP_TRY(check_writable(tensors));
  std::vector<size_t> storages;  // the tensor that each storage is written from
  std::map<std::tuple<const void*, uint64_t, DType>, size_t> shared;
  PickleText pickle;
  pickle.op("}");
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string& key = tensors[i].key;
    const TensorView& view = tensors[i].view;
    if (key.size() > 0x7FFFFFFF) return Error{ErrorCode::kTooLarge, "a key of more than 2 GiB", path.string()};
    size_t storage = storages.size();
    if (is_contiguous(view) && element_count(view) > 0)
      storage = shared.emplace(std::tuple(view.data, byte_count(view), view.dtype), storage).first->second;
    if (storage == storages.size()) storages.push_back(i);
    pickle.string(key);
    append_tensor(pickle, view, storage);
    pickle.op("s");
  }
  pickle.op(".");

  TTAP_ASSIGN(OutputFile file, OutputFile::create(path));
  ZipWriter zip(std::move(file));
  // The name torch.save uses when it does not know the file's; the same tensors give the same bytes
  // everywhere.
  TTAP_TRY(zip.add("archive/data.pkl", pickle.text()));
  TTAP_TRY(zip.add("archive/.format_version", "1"));
  TTAP_TRY(zip.add("archive/.storage_alignment", "64"));
  TTAP_TRY(zip.add("archive/byteorder", "little"));
  if (!groups.empty()) TTAP_TRY(zip.add(fmt::format("archive/{}", kGroupsEntry), groups));
  for (size_t i = 0; i < storages.size(); ++i) {
    const TensorView& view = tensors[storages[i]].view;
    TTAP_TRY(zip.begin_entry(fmt::format("archive/data/{}", i), byte_count(view)));
    TTAP_TRY(stream_logical(view, [&](std::span<const std::byte> bytes) { return zip.write(bytes); }));
    TTAP_TRY(zip.end_entry());
  }
  TTAP_TRY(zip.add("archive/version", "3\n"));
  return zip.finish();
}

}  // namespace ttap
