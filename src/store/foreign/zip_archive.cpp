#include "store/foreign/zip_archive.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "core/utf8.h"
#include "store/foreign/zip_format.h"

namespace ttap {
namespace {

using zip::load;
using Bytes = std::span<const std::byte>;

Error corrupt_zip(std::string message, uint64_t offset) {
  return {.code = ErrorCode::kCorrupt, .message = std::move(message), .offset = offset};
}

std::string_view text_at(Bytes bytes, size_t offset, size_t size) {
  return {reinterpret_cast<const char*>(bytes.data()) + offset, size};
}

// Where the central directory stands.
struct Directory {
  uint64_t begin = 0;
  uint64_t size = 0;
  uint64_t count = 0;
};

Result<size_t> find_end_record(Bytes bytes) {
  if (bytes.size() >= zip::kEndSize) {
    // It is the last thing in the file, but for a comment of at most 65,535 bytes.
    const size_t last = bytes.size() - zip::kEndSize;
    const size_t first = last > 0xFFFF ? last - 0xFFFF : 0;
    for (size_t at = last + 1; at-- > first;)
      if (load<uint32_t>(bytes, at) == zip::kEndMark && load<uint16_t>(bytes, at + 20) == last - at) return at;
  }
  return Error{.code = ErrorCode::kTruncated,
               .message = "the zip archive has no end record: it was cut short",
               .offset = bytes.size()};
}

Result<Directory> find_directory(Bytes bytes) {
  TTAP_ASSIGN(const size_t end, find_end_record(bytes));
  const auto several_disks = [&] {
    return Error{.code = ErrorCode::kUnsupported, .message = "the zip archive spans several disks", .offset = end};
  };
  if (load<uint16_t>(bytes, end + 4) != load<uint16_t>(bytes, end + 6)) return several_disks();
  Directory directory{.begin = load<uint32_t>(bytes, end + 16),
                      .size = load<uint32_t>(bytes, end + 12),
                      .count = load<uint16_t>(bytes, end + 10)};
  if (load<uint16_t>(bytes, end + 8) != directory.count) return several_disks();
  uint64_t directory_end = end;
  const bool has64 = end >= zip::kLocator64Size + zip::kEnd64Size &&
                     load<uint32_t>(bytes, end - zip::kLocator64Size) == zip::kLocator64Mark;
  const bool wants64 =
      directory.begin == zip::kSee64 || directory.size == zip::kSee64 || directory.count == zip::kSee64Short;
  if (has64) {
    const size_t locator = end - zip::kLocator64Size;
    const auto at = load<uint64_t>(bytes, locator + 8);
    if (at != locator - zip::kEnd64Size || load<uint32_t>(bytes, at) != zip::kEnd64Mark)
      return corrupt_zip("the zip64 end record is not where its locator says", locator);
    const Directory large{.begin = load<uint64_t>(bytes, at + 48),
                          .size = load<uint64_t>(bytes, at + 40),
                          .count = load<uint64_t>(bytes, at + 32)};
    const bool agree = (directory.begin == zip::kSee64 || directory.begin == large.begin) &&
                       (directory.size == zip::kSee64 || directory.size == large.size) &&
                       (directory.count == zip::kSee64Short || directory.count == large.count);
    if (!agree) return corrupt_zip("the two end records of the zip archive disagree", at);
    directory = large;
    directory_end = at;
  } else if (wants64) {
    return corrupt_zip("the zip archive lacks its zip64 end record", end);
  }
  if (directory.begin > directory_end || directory_end - directory.begin != directory.size ||
      directory.count > directory.size / zip::kCentralSize)
    return corrupt_zip("the end record of the zip archive does not fit its directory", end);
  return directory;
}

// Replaces the fields that say "see zip64" by those of the extra field, in the fixed order of the format.
Status apply_extra64(Bytes extra, std::span<uint64_t* const> fields, uint64_t offset) {
  if (std::ranges::none_of(fields, [](const uint64_t* field) { return *field == zip::kSee64; })) return {};
  for (size_t at = 0; extra.size() - at >= 4;) {
    const auto id = load<uint16_t>(extra, at), size = load<uint16_t>(extra, at + 2);
    if (size > extra.size() - at - 4) break;
    if (id == zip::kExtra64) {
      Bytes rest = extra.subspan(at + 4, size);
      for (uint64_t* field : fields) {
        if (*field != zip::kSee64) continue;
        if (rest.size() < 8) return corrupt_zip("a zip64 field is missing", offset);
        *field = load<uint64_t>(rest, 0);
        rest = rest.subspan(8);
      }
      return {};
    }
    at += 4u + size;
  }
  return corrupt_zip("a zip64 field is missing", offset);
}

// One entry with where its header begins, for the overlap check.
struct Placed {
  ZipEntry entry;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// The entry whose central record begins at `at`; moves `at` behind it.
Result<Placed> read_entry(Bytes bytes, const Directory& directory, uint64_t& at) {
  const uint64_t record = at;
  const uint64_t limit = directory.begin + directory.size;
  if (limit - at < zip::kCentralSize || load<uint32_t>(bytes, at) != zip::kCentralMark)
    return corrupt_zip("the central directory of the zip archive is damaged", record);
  const auto flags = load<uint16_t>(bytes, at + 8), method = load<uint16_t>(bytes, at + 10);
  const auto crc = load<uint32_t>(bytes, at + 16);
  uint64_t stored = load<uint32_t>(bytes, at + 20), size = load<uint32_t>(bytes, at + 24);
  uint64_t local = load<uint32_t>(bytes, at + 42);
  const size_t name_size = load<uint16_t>(bytes, at + 28), extra_size = load<uint16_t>(bytes, at + 30),
               comment_size = load<uint16_t>(bytes, at + 32);
  at += zip::kCentralSize;
  if (limit - at < name_size + extra_size + comment_size)
    return corrupt_zip("the central directory of the zip archive is damaged", record);
  const std::string_view name = text_at(bytes, at, name_size);
  uint64_t* const fields[] = {&size, &stored, &local};
  TTAP_TRY(apply_extra64(bytes.subspan(at + name_size, extra_size), fields, record));
  at += name_size + extra_size + comment_size;

  if (flags & zip::kEncrypted)
    return Error{.code = ErrorCode::kUnsupported,
                 .message = fmt::format("'{}' in the zip archive is encrypted", brief_text(name)),
                 .offset = record};
  if (method != 0)
    return Error{.code = ErrorCode::kUnsupported,
                 .message = fmt::format("'{}' in the zip archive is compressed", brief_text(name)),
                 .offset = record,
                 .hint = "torch.save does not compress; save it again, or repack it with `zip -0`"};
  if (stored != size) return corrupt_zip(fmt::format("'{}' states two sizes", brief_text(name)), record);
  if (local > directory.begin || directory.begin - local < zip::kLocalSize ||
      load<uint32_t>(bytes, local) != zip::kLocalMark)
    return corrupt_zip(fmt::format("'{}' is not where the directory says", brief_text(name)), record);

  const auto local_flags = load<uint16_t>(bytes, local + 6);
  const uint64_t data = local + zip::kLocalSize + load<uint16_t>(bytes, local + 26) + load<uint16_t>(bytes, local + 28);
  if (data > directory.begin || directory.begin - data < size)
    return corrupt_zip(fmt::format("'{}' reaches into the directory", brief_text(name)), local);
  if (load<uint16_t>(bytes, local + 26) != name_size || text_at(bytes, local + zip::kLocalSize, name_size) != name ||
      load<uint16_t>(bytes, local + 8) != 0 || (local_flags & zip::kEncrypted) ||
      (!(local_flags & zip::kHasDescriptor) && load<uint32_t>(bytes, local + 14) != crc))
    return corrupt_zip(fmt::format("'{}' differs from what the directory says", brief_text(name)), local);
  return Placed{{name, bytes.subspan(data, size), data, crc}, local, data + size};
}

}  // namespace

Result<ZipArchive> ZipArchive::open(std::span<const std::byte> bytes) {
  constexpr std::string_view kStart = "PK\3\4";
  if (!text_at(bytes, 0, std::min(bytes.size(), kStart.size())).starts_with(kStart.substr(0, bytes.size())))
    return Error{.code = ErrorCode::kNotThisFormat, .message = "not a zip archive", .offset = 0};
  TTAP_ASSIGN(const Directory directory, find_directory(bytes));

  ZipArchive archive;
  std::vector<Placed> placed;
  placed.reserve(directory.count);
  uint64_t at = directory.begin;
  for (uint64_t i = 0; i < directory.count; ++i) {
    TTAP_ASSIGN(Placed entry, read_entry(bytes, directory, at));
    if (!archive.by_name_.emplace(entry.entry.name, i).second)
      return corrupt_zip(fmt::format("'{}' is in the zip archive twice", brief_text(entry.entry.name)), entry.begin);
    archive.entries_.push_back(entry.entry);
    placed.push_back(entry);
  }
  if (at != directory.begin + directory.size)
    return corrupt_zip("the central directory of the zip archive has more entries than it says", at);

  std::ranges::sort(placed, {}, &Placed::begin);
  for (size_t i = 1; i < placed.size(); ++i)
    if (placed[i].begin < placed[i - 1].end)
      return corrupt_zip(
          fmt::format("'{}' overlaps '{}'", brief_text(placed[i].entry.name), brief_text(placed[i - 1].entry.name)),
          placed[i].begin);
  archive.has_checksums_ = std::ranges::any_of(archive.entries_, [](const ZipEntry& entry) { return entry.crc != 0; });
  return archive;
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

Status ZipArchive::verify(const ZipEntry& entry) const {
  if (!has_checksums_) return {};
  const auto crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(entry.data.data()), entry.data.size());
  if (crc == entry.crc) return {};
  return corrupt_zip(fmt::format("'{}': its checksum does not hold", brief_text(entry.name)), entry.offset);
}

}  // namespace ttap
