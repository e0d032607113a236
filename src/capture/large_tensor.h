#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "capture/pass_sink.h"

namespace ttap {

struct PassSink::Large {
  StagedTensor staged;  // its spans and views point into the copies below
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  std::string role, path, device, group;
  bool keeping;     // bytes are going to the file
  bool over_quota;  // they are not, for lack of quota
};

}  // namespace ttap
