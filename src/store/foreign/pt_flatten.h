#pragma once

#include "store/foreign/foreign.h"
#include "store/foreign/pickle_machine.h"
#include "store/foreign/zip_archive.h"

namespace ttap {

// Walks what a pickle built and lists its tensors by key, over the storages of the archive (entries
// `<folder>/data/<key>`). `pickle_size` bounds what shared references may unfold into.
Result<ForeignTensors> flatten_pt(const PickleHeap& heap, PickleId root, const ZipArchive& archive,
                                  std::string_view folder, uint64_t pickle_size);

}  // namespace ttap
