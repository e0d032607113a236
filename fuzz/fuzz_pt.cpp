#include <cstdint>

#include "foreign/formats.h"
#include "store/foreign/pickle_machine.h"
#include "store/foreign/pt.h"
#include "store/foreign/pt_calls.h"
#include "store/foreign/pt_flatten.h"
#include "store/foreign/zip_archive.h"

// No bytes may crash the reader, and every tensor it hands out must lie inside them. The checksums would keep
// the fuzzer out of the pickle, so the layers behind them are also tried on their own: the input as a whole
// file, then its pickle without verification, then the input as nothing but a pickle over the storages of a
// small archive.
namespace {

using namespace ttap;

void run_pickle_over(std::span<const std::byte> pickle, const ZipArchive& archive, std::string_view folder) {
  PickleHeap heap;
  PtCalls calls(heap);
  const auto root = run_pickle(pickle, heap, calls);
  if (!root.ok()) return;
  if (const auto flat = flatten_pt(heap, *root, archive, folder, pickle.size()); flat.ok()) test::touch(*flat);
}

// A storage "0" of 64 bytes.
const ZipArchive& small_archive() {
  static const auto file = [] {
    const test::TemporaryFolder folder;
    static const std::byte bytes[64] = {};
    const int64_t shape[] = {64};
    TTAP_CHECK(write_pt(folder / "x", {{{"a", {bytes, DType::kU8, shape, {}}}}}).ok());
    return test::bytes_of_file(folder / "x");
  }();
  static const auto archive = ZipArchive::open(file);
  return *archive;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto parsed = parse_pt(bytes); parsed.ok()) test::touch(*parsed);
  if (const auto archive = ZipArchive::open(bytes); archive.ok()) {
    if (const ZipEntry* entry = archive->find("archive/data.pkl")) run_pickle_over(entry->data, *archive, "archive");
  } else {
    run_pickle_over(bytes, small_archive(), "archive");
  }
  return 0;
}
