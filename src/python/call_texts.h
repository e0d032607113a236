#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "ttap/recorder.h"

namespace ttap::python {

// What is known of a call and is the same each time it happens; made once, used at the end of every such call.
class CallTexts {
 public:
  struct Place {
    std::string role;
    std::string path;
    bool written = false;
  };
  CallTexts(std::string arguments, std::string results, std::string notes, std::vector<Place> uses)
      : arguments_(std::move(arguments)),
        results_(std::move(results)),
        notes_(std::move(notes)),
        uses_(std::move(uses)) {}

  // The end of one call. `numbers` is a list of two integers for each use: the tensor's, and the value's, or None when
  // there are no uses; ValueError when they are too few or too many. The result points into this and into `uses`.
  CallInfo with(nanobind::handle numbers, std::vector<Use>& uses) const;

 private:
  std::string arguments_;
  std::string results_;
  std::string notes_;
  std::vector<Place> uses_;
};

void init_call_texts(nanobind::module_& m);

}  // namespace ttap::python
