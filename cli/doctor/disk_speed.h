#pragma once

#include <cstdint>
#include <filesystem>

#include "ttap/result.h"

namespace ttap::cli {

// How fast a directory takes large blobs, measured by writing some and removing them.
struct DiskSpeed {
  bool direct = false;          // writes round the page cache are possible there
  double bytes_per_second = 0;  // until the disk had them
  uint64_t free_bytes = 0;      // for an ordinary user
};
Result<DiskSpeed> measure_disk_speed(const std::filesystem::path& directory);

}  // namespace ttap::cli
