#include "python/call_texts.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <utility>

namespace nb = nanobind;
using namespace nb::literals;

namespace ttap::python {
namespace {

uint32_t number_at(nb::handle list, size_t index) {
  const unsigned long value = PyLong_AsUnsignedLong(PyList_GetItem(list.ptr(), static_cast<Py_ssize_t>(index)));
  if (value == static_cast<unsigned long>(-1) && PyErr_Occurred() != nullptr) throw nb::python_error();
  return static_cast<uint32_t>(value);
}

}  // namespace

CallInfo CallTexts::with(nb::handle numbers, std::vector<Use>& uses) const {
  const bool is_list = PyList_Check(numbers.ptr());
  const size_t given = is_list ? static_cast<size_t>(PyList_Size(numbers.ptr())) : 0;
  if (!(is_list || numbers.is_none()) || given != 2 * uses_.size())
    throw nb::value_error("a call's numbers must be a list of two for each of its uses");
  uses.reserve(uses_.size());
  for (size_t i = 0; i < uses_.size(); ++i)
    uses.push_back({.role = uses_[i].role,
                    .path = uses_[i].path,
                    .tensor = number_at(numbers, 2 * i),
                    .value = number_at(numbers, 2 * i + 1),
                    .written = uses_[i].written});
  return {.arguments = arguments_, .results = results_, .notes = notes_, .forward = {}, .uses = uses};
}

void init_call_texts(nb::module_& m) {
  nb::class_<CallTexts>(m, "CallTexts", "The texts and uses of a call, for Recorder.end_event(); see EventRecord.")
      .def(
          "__init__",
          [](CallTexts* self, std::string arguments, std::string results, std::string notes,
             const std::vector<std::tuple<std::string, std::string, bool>>& uses) {
            std::vector<CallTexts::Place> places;
            places.reserve(uses.size());
            for (const auto& [role, path, written] : uses) places.push_back({role, path, written});
            new (self) CallTexts(std::move(arguments), std::move(results), std::move(notes), std::move(places));
          },
          "arguments"_a = "", "results"_a = "", "notes"_a = "",
          "uses"_a = std::vector<std::tuple<std::string, std::string, bool>>{},
          "`uses` are (role, path, written), in the order in which `%0`, `%1`, … of the texts name them.");
}

}  // namespace ttap::python
