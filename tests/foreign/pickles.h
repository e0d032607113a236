#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "foreign/formats.h"
#include "store/foreign/zip_format.h"
#include "store/foreign/zip_writer.h"

// Pickles and archives by hand, right and wrong ones.
namespace ttap::test {

inline std::string text(std::string_view value) {
  std::string out = "X";
  zip::append<uint32_t>(out, static_cast<uint32_t>(value.size()));
  return out + std::string(value);
}

inline std::string integer(int64_t value) {
  std::string out = "\x8a\x08";
  zip::append<uint64_t>(out, static_cast<uint64_t>(value));
  return out;
}

inline std::string tuple(const std::vector<int64_t>& values) {
  std::string out = "(";
  for (int64_t value : values) out += integer(value);
  return out + "t";
}

inline std::string storage_pickle(const std::string& type, const std::string& key, int64_t elements) {
  return "(" + text("storage") + "ctorch\n" + type + "\n" + text(key) + text("cpu") + integer(elements) + "tQ";
}

inline std::string tensor_pickle(const std::string& type, const std::string& key, int64_t elements, int64_t offset,
                                 const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                                 const std::string& more = "") {
  return "ctorch._utils\n_rebuild_tensor_v2\n(" + storage_pickle(type, key, elements) + integer(offset) + tuple(shape) +
         tuple(strides) + "\x89" + "ccollections\nOrderedDict\n)R" + more + "tR";
}

using Entries = std::vector<std::pair<std::string, std::string>>;

inline std::vector<std::byte> zip_file(const Entries& entries) {
  const TemporaryFolder folder;
  auto file = OutputFile::create(folder / "x");
  TTAP_CHECK(file.ok());
  ZipWriter zip(std::move(file).value());
  for (const auto& [name, content] : entries) TTAP_CHECK(zip.add(name, content).ok());
  TTAP_CHECK(zip.finish().ok());
  return bytes_of_file(folder / "x");
}

// An archive with this pickle (the protocol is put before it) and these storages.
inline std::vector<std::byte> pt_file(const std::string& pickle, const Entries& storages = {}) {
  Entries entries = {{"archive/data.pkl", "\x80\x02" + pickle}, {"archive/byteorder", "little"}};
  for (const auto& [key, content] : storages) entries.emplace_back("archive/data/" + key, content);
  entries.emplace_back("archive/version", "3\n");
  return zip_file(entries);
}

}  // namespace ttap::test
