#include <nanobind/nanobind.h>

#include "python/checking.h"
#include "python/collectives.h"
#include "python/comparing.h"
#include "python/errors.h"
#include "python/guard.h"
#include "python/logging.h"
#include "python/probing.h"
#include "python/quantizing.h"
#include "python/reading.h"
#include "python/recording.h"
#include "python/scoring.h"
#include "python/tensor_access.h"
#include "ttap/version.h"

NB_MODULE(_core, m) {
  m.doc() = "TensorTap's recorder and reader, as the Python package uses them.";
  m.attr("version") = ttap::version();
  nanobind::set_leak_warnings(false);  // what a program still holds at its end is not its concern
  ttap::python::init_errors(m);
  ttap::python::init_tensor_access(m);
  ttap::python::init_guard(m);
  ttap::python::init_recording(m);
  ttap::python::init_reading(m);
  ttap::python::init_comparing(m);
  ttap::python::init_checking(m);
  ttap::python::init_collectives(m);
  ttap::python::init_scoring(m);
  ttap::python::init_logging(m);
  ttap::python::init_probing(m);
  ttap::python::init_quantizing(m);
}
