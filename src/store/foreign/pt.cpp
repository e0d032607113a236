#include "store/foreign/pt.h"

#include <fmt/format.h>

#include "core/utf8.h"
#include "store/foreign/group_note.h"
#include "store/foreign/pt_calls.h"
#include "store/foreign/pt_flatten.h"
#include "store/foreign/zip_archive.h"

namespace ttap {
namespace {

constexpr std::string_view kPickleName = "/data.pkl";
// The pickled magic number with which files of PyTorch before 1.6 begin.
constexpr std::string_view kLegacyStart = "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The one pickle `<folder>/data.pkl`.
Result<const ZipEntry*> find_pickle(const ZipArchive& archive) {
  const ZipEntry* found = nullptr;
  for (const ZipEntry& entry : archive.entries()) {
    if (!entry.name.ends_with(kPickleName) || entry.name.find('/') != entry.name.size() - kPickleName.size()) continue;
    if (found != nullptr)
      return Error{.code = ErrorCode::kCorrupt, .message = "the file holds two pickles", .offset = entry.offset};
    found = &entry;
  }
  if (found == nullptr)
    return Error{.code = ErrorCode::kNotThisFormat,
                 .message = "a zip archive without data.pkl: torch.save did not write it",
                 .offset = 0};
  return found;
}

}  // namespace

Result<ForeignTensors> parse_pt(std::span<const std::byte> bytes, const PtOptions& options) {
  if (text_of(bytes).starts_with(kLegacyStart))
    return Error{.code = ErrorCode::kVersion,
                 .message = "the .pt file was written by PyTorch before 1.6, or without its zip format",
                 .offset = 0,
                 .hint = "load it and save it again with a current torch.save"};
  TTAP_ASSIGN(const ZipArchive archive, ZipArchive::open(bytes));
  TTAP_ASSIGN(const ZipEntry* const entry, find_pickle(archive));
  const std::string_view folder = entry->name.substr(0, entry->name.size() - kPickleName.size());
  const ZipEntry* order = archive.find(fmt::format("{}/byteorder", folder));
  TTAP_TRY(archive.verify(*entry));
  if (order != nullptr) TTAP_TRY(archive.verify(*order));
  if (options.verify_tensors)
    for (const ZipEntry& other : archive.entries()) TTAP_TRY(archive.verify(other));
  // Files older than the entry are little-endian.
  if (order != nullptr && text_of(order->data) != "little")
    return Error{.code = ErrorCode::kUnsupported,
                 .message = fmt::format("byte order '{}'", brief_text(text_of(order->data))),
                 .offset = order->offset,
                 .hint = "save it again on a little-endian machine"};

  PickleHeap heap;
  PtCalls calls(heap);
  auto root = run_pickle(entry->data, heap, calls);
  if (!root.ok()) {
    Error error = std::move(root).error();
    error.offset = entry->offset + error.offset.value_or(0);
    return error;
  }
  auto flat = flatten_pt(heap, *root, archive, folder, entry->data.size());
  if (!flat.ok()) {
    Error error = std::move(flat).error();
    if (!error.offset) error.offset = entry->offset;
    return error;
  }
  if (const ZipEntry* groups = archive.find(fmt::format("{}/{}", folder, kGroupsEntry)); groups != nullptr) {
    TTAP_TRY(archive.verify(*groups));
    if (Status added = add_groups(text_of(groups->data), *flat); !added.ok()) {
      Error error = std::move(added).error();
      error.offset = groups->offset;
      return error;
    }
  }
  if (!archive.has_checksums()) flat->notes.emplace_back("the file has no checksums: damage would go unnoticed");
  return flat;
}

Result<ForeignTensors> read_pt(const std::filesystem::path& path, const PtOptions& options) {
  TTAP_ASSIGN(auto file, MappedFile::open(path));
  auto parsed = parse_pt(file->bytes(), options);
  if (!parsed.ok()) return std::move(parsed).error().with_path(path.string());
  parsed->files.push_back(std::move(file));
  return parsed;
}

}  // namespace ttap
