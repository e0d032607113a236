#pragma once

#include <nanobind/nanobind.h>

#include "ttap/record.h"

namespace ttap::python {

// What was seen and not kept, by cause.
inline nanobind::dict drops_as_dict(const DropCounts& drops) {
  nanobind::dict result;
  result["staging_full"] = drops.staging_full;
  result["quota"] = drops.quota;
  result["disk_full"] = drops.disk_full;
  result["io_error"] = drops.io_error;
  result["unsupported"] = drops.unsupported;
  result["events"] = drops.events;
  result["late"] = drops.late;
  return result;
}

}  // namespace ttap::python
