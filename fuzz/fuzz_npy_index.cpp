#include <cstdint>

#include "foreign/formats.h"
#include "read_pass.h"
#include "sample_folder.h"

// The index.json of a folder of .npy files, of a graph or not. No text may crash its reader, lead out of the folder, or
// make a record say something else than the file it names.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ttap;
  static const test::TemporaryFolder root;
  static const auto folder = [] {
    const std::filesystem::path made = root / fuzz::kSampleFolder;
    fuzz::write_sample_files(made);
    return made;
  }();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto parsed = parse_graph_index(text, folder); parsed.ok()) {
    const auto rank = folder.parent_path().parent_path();
    for (const StoredTensor& tensor : parsed->tensors)
      if (!tensor.file.empty())
        TTAP_CHECK(tensor.file.lexically_normal().lexically_relative(rank).string().starts_with("graph_"));
  }
  test::write_text(folder / kGraphIndexName, text);
  if (const auto pass = Pass::open(folder); pass.ok()) fuzz::read_everything(*pass);
  return 0;
}
