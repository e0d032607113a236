#pragma once

#include <filesystem>

#include "report/log/log.h"

namespace ttap::cli {

// The modules of a rank's model.json with their classes; none when it has no such file, or one that cannot be read. A
// name that two modules of different classes have is there without one.
ModuleClasses read_module_classes(const std::filesystem::path& rank_directory);

}  // namespace ttap::cli
