#include "python/probing.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/compare_tensors.h"
#include "core/element.h"
#include "cuda/kept_by_graphs.h"
#include "cuda/probe_site.h"
#include "python/errors.h"
#include "python/held_event.h"
#include "python/stats_dict.h"
#include "python/tensor_access.h"
#include "ttap/recorder.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace ttap::python {
namespace {

constexpr std::align_val_t kTorchAlignment{64};  // what torch's own allocator gives

using Bytes = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

cuda::Stream stream_of(uintptr_t handle) { return reinterpret_cast<cuda::Stream>(handle); }  // NOLINT

// Whoever waits for a device gives up the GIL meanwhile: the device may be waiting for the thread that reads the rings.
// That goes for freeing too.
template <class T>
class FreedWithoutGil {
 public:
  explicit FreedWithoutGil(std::shared_ptr<T> object) : object_(std::move(object)) {}
  FreedWithoutGil(const FreedWithoutGil&) = delete;
  FreedWithoutGil(FreedWithoutGil&&) = delete;
  FreedWithoutGil& operator=(const FreedWithoutGil&) = delete;
  FreedWithoutGil& operator=(FreedWithoutGil&&) = delete;
  ~FreedWithoutGil() {
    const nb::gil_scoped_release released;
    object_.reset();
  }
  const std::shared_ptr<T>& get() const { return object_; }

 private:
  std::shared_ptr<T> object_;
};

struct Expected : FreedWithoutGil<cuda::ExpectedTensor> {
  using FreedWithoutGil::FreedWithoutGil;
};

struct Site : FreedWithoutGil<cuda::ProbeSite> {
  using FreedWithoutGil::FreedWithoutGil;
  ~Site() { get()->close(); }  // nobody will read what the graph leaves from now on
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;
};

// A reference that may be dropped by any thread.
std::shared_ptr<void> kept(nb::handle object) {
  return {object.inc_ref().ptr(), [](void* p) {
            if (Py_IsInitialized() == 0) return;
            const nb::gil_scoped_acquire acquired;
            Py_DECREF(static_cast<PyObject*>(p));
          }};
}

// One element as Python writes it: a truth value, a number, or the two of a packed one.
nb::object element(DType dtype, const void* bytes) {
  const DTypeInfo& known = dtype_info(dtype);
  const auto whole = [&](auto sample) {
    std::memcpy(&sample, bytes, sizeof sample);
    return nb::object(nb::int_(sample));
  };
  switch (known.kind) {
    case DTypeKind::kBool: return nb::bool_(value_of(dtype, bytes) != 0);
    case DTypeKind::kComplex:
      return nb::steal(PyComplex_FromDoubles(value_of(dtype, bytes), value_of(dtype, bytes, 1)));
    case DTypeKind::kFloat:
      if (known.values == 2) return nb::make_tuple(value_of(dtype, bytes), value_of(dtype, bytes, 1));
      return nb::float_(value_of(dtype, bytes));
    default: break;
  }
  if (dtype == DType::kU64) return whole(uint64_t{});
  if (dtype == DType::kI64) return whole(int64_t{});
  return nb::int_(static_cast<int64_t>(value_of(dtype, bytes)));
}

DType dtype_named(std::string_view name) {
  const auto dtype = dtype_from_name(name);
  if (!dtype) raise({.message = "no dtype is called '" + std::string(name) + "'"});
  return *dtype;
}

nb::object copied(std::span<const std::byte> bytes, std::byte* memory) {
  const nb::capsule owner(memory, [](void* p) noexcept { ::operator delete(p, kTorchAlignment); });
  const size_t shape[] = {bytes.size()};
  return nb::cast(Bytes(memory, 1, shape, owner));
}

// (index, fingerprint, bytes looked at, what was taken of them), or None when nothing has arrived.
nb::object next_of(Site& self) {
  cuda::ProbeSite& site = *self.get();
  while (true) {
    std::optional<cuda::ProbeSite::Arrived> arrived;
    std::byte* memory = nullptr;
    bool whole = false;
    {
      const nb::gil_scoped_release released;
      arrived = site.next();
      if (arrived) {
        memory = static_cast<std::byte*>(::operator new(arrived->taken.size() + 1, kTorchAlignment));
        if (!arrived->taken.empty()) std::memcpy(memory, arrived->taken.data(), arrived->taken.size());
        whole = site.release(*arrived);
        if (!whole) ::operator delete(memory, kTorchAlignment);
      }
    }
    if (!arrived) return nb::none();
    if (whole)
      return nb::make_tuple(arrived->entry.index, arrived->fingerprint, arrived->bytes, copied(arrived->taken, memory));
  }
}

nb::dict compared_as_dict(DType dtype, const Comparison& found) {
  nb::dict result;
  result["differing"] = found.differing;
  result["first"] = found.first;
  result["largest"] = found.largest;
  result["actual"] = element(dtype, found.actual.data());
  result["expected"] = element(dtype, found.expected.data());
  return result;
}

// (comparisons, failures, the first failure or None)
nb::tuple comparisons_of(const Site& self, std::string_view dtype_name) {
  const cuda::CompareReport* report = self.get()->comparisons();
  if (report == nullptr) return nb::make_tuple(0, 0, nb::none());
  // In this order: whoever sees a comparison counted sees it as a failure too, when it is one.
  const uint64_t comparisons = cuda::comparisons_of(*report);
  const uint64_t failures = cuda::failures_of(*report);
  if (failures == 0) return nb::make_tuple(comparisons, failures, nb::none());
  Comparison found{.differing = report->differing, .first = report->first, .largest = report->largest};
  std::memcpy(found.actual.data(), report->actual, sizeof report->actual);
  std::memcpy(found.expected.data(), report->expected, sizeof report->expected);
  nb::dict first = compared_as_dict(dtype_named(dtype_name), found);
  first["replay"] = report->failed_comparison;
  first["elements"] = report->elements;
  return nb::make_tuple(std::max(comparisons, failures), failures, first);
}

void enqueue(Site& self, nb::handle tensor, uintptr_t stream, nb::object rows, bool rows_are_64_bit,
             const Expected* expected, double rtol, double atol, bool equal_nan) {
  const TensorAccess access(tensor);
  cuda::Rows live;
  std::shared_ptr<void> owner;
  if (!rows.is_none()) {
    live = {reinterpret_cast<const void*>(nb::cast<uintptr_t>(rows.attr("data_ptr")())), rows_are_64_bit};  // NOLINT
    owner = kept(rows);
  }
  std::optional<cuda::ProbeSite::Expectation> expectation;
  if (expected != nullptr) expectation = {expected->get(), {rtol, atol, equal_nan}};
  Status status;
  {
    const nb::gil_scoped_release released;
    status = self.get()->enqueue(access.view(), live, std::move(owner), expectation ? &*expectation : nullptr,
                                 stream_of(stream));
  }
  if (!status.ok()) raise_of_device(status.error());
}

void init_device(nb::module_& m) {
  nb::class_<Expected>(m, "ProbeExpected", "What a comparison expects, in the memory of a device.")
      .def(
          "__init__",
          [](Expected* self, nb::handle tensor, int device) {
            const TensorAccess access(tensor);
            Result<std::shared_ptr<cuda::ExpectedTensor>> made = [&] {
              const nb::gil_scoped_release released;
              return cuda::expected_on_device(access.view(), device);
            }();
            if (!made.ok()) raise_of_device(made.error());
            new (self) Expected(std::move(made).value());
          },
          "tensor"_a, "device"_a);

  nb::class_<Site>(m, "ProbeSite", "A place on a device that a probe looks at; see src/cuda/probe_site.h.")
      .def(
          "__init__",
          [](Site* self, int device, uint64_t bytes, uint64_t element_bytes, bool keep_bytes, uint64_t head_elements,
             uint32_t capacity, bool wait_when_full, bool compares) {
            Result<std::shared_ptr<cuda::ProbeSite>> made = [&] {
              const nb::gil_scoped_release released;
              return cuda::ProbeSite::create({.device = device,
                                              .bytes = bytes,
                                              .keep_bytes = keep_bytes,
                                              .head_elements = head_elements,
                                              .element_bytes = element_bytes,
                                              .capacity = capacity,
                                              .wait_when_full = wait_when_full,
                                              .compares = compares});
            }();
            if (!made.ok()) raise_of_device(made.error());
            new (self) Site(std::move(made).value());
          },
          "device"_a, "bytes"_a, "element_bytes"_a, "keep_bytes"_a, "head_elements"_a, "capacity"_a, "wait_when_full"_a,
          "compares"_a)
      .def("enqueue", &enqueue, "tensor"_a, "stream"_a, "rows"_a.none() = nb::none(), "rows_are_64_bit"_a = true,
           "expected"_a.none() = nb::none(), "rtol"_a = 0.0, "atol"_a = 0.0, "equal_nan"_a = false,
           "Puts the work on a stream; the graph captured there keeps it.")
      .def("next", &next_of)
      .def("comparisons", &comparisons_of, "dtype"_a)
      .def_prop_ro("published", [](const Site& self) { return self.get()->published(); })
      .def_prop_ro("overwritten", [](const Site& self) { return self.get()->overwritten(); })
      .def_prop_ro("skipped", [](const Site& self) { return self.get()->skipped(); })
      .def("close", [](const Site& self) { self.get()->close(); });

  m.def(
      "probe_capture_number", [](uintptr_t stream) { return cuda::probe_capture_number(stream_of(stream)); },
      "stream"_a, "Of the graph being captured on a stream, or 0.");
  m.def("probe_device_reason", &cuda::probe_device_reason, "Why nothing on a device can be probed; empty when it can.");
  m.def("free_device_memory", &cuda::free_what_was_put_aside, nb::call_guard<nb::gil_scoped_release>(),
        "Frees what probes, recordings and graphs that are gone had; not while a graph is captured.");
  m.def("capturing", &cuda::capturing, "by"_a, "A CUDA graph is being captured; nests.");
}

}  // namespace

void init_probing(nb::module_& m) {
  nb::class_<Fingerprint>(m, "Fingerprint")
      .def_prop_ro("hash", [](const Fingerprint& self) { return to_string(self.hash); })
      .def_prop_ro("stats", [](const Fingerprint& self) { return stats_as_dict(self.stats); });
  init_device(m);
  m.def(
      "fingerprint",
      [](nb::handle tensor) {
        const TensorAccess access(tensor);
        const TensorView view = access.view();
        raise_if_failed(validate(view));
        const nb::gil_scoped_release released;
        return fingerprint(view, {.sketch = false});
      },
      "tensor"_a, "Of a strided CPU tensor.");
  m.def(
      "compare",
      [](nb::handle actual, nb::handle expected, double rtol, double atol, bool equal_nan) {
        const TensorAccess ours(actual);
        const TensorAccess theirs(expected);
        const TensorView a = ours.view();
        const TensorView b = theirs.view();
        raise_if_failed(validate(a));
        raise_if_failed(validate(b));
        if (a.dtype != b.dtype || !std::equal(a.shape.begin(), a.shape.end(), b.shape.begin(), b.shape.end()))
          raise({.message = "two tensors of different dtype or shape are compared"});
        Comparison found;
        {
          const nb::gil_scoped_release released;
          found = compare_tensors(a, b, {rtol, atol, equal_nan});
        }
        return compared_as_dict(a.dtype, found);
      },
      "actual"_a, "expected"_a, "rtol"_a, "atol"_a, "equal_nan"_a, "Two strided CPU tensors of one dtype and shape.");
  m.def(
      "values",
      [](const Bytes& bytes, std::string_view dtype_name, uint64_t most) {
        const DType dtype = dtype_named(dtype_name);
        const uint64_t count = std::min<uint64_t>(most, bytes.size() / size_of(dtype));
        nb::list values;
        for (uint64_t i = 0; i < count; ++i) values.append(element(dtype, bytes.data() + i * size_of(dtype)));
        return values;
      },
      "bytes"_a, "dtype"_a, "most"_a, "The first elements of a dtype in an array of bytes.");
  m.def(
      "capture_fingerprint",
      [](Recorder& recorder, const HeldEvent& held, const Fingerprint& known, std::string_view dtype_name,
         const std::vector<int64_t>& shape, std::string_view device) -> std::optional<std::string> {
        // What is known already is not read; a view without data would be taken for a mistake.
        const TensorView view{&known, dtype_named(dtype_name), shape, {}};
        Status status;
        {
          const nb::gil_scoped_release released;
          status = recorder.try_capture(held.event, view,
                                        {.device = device, .at_most = Level::kFingerprint, .known = &known});
        }
        if (status.ok()) return std::nullopt;
        return status.error().describe();
      },
      "recorder"_a, "event"_a, "fingerprint"_a, "dtype"_a, "shape"_a, "device"_a,
      "Records a tensor of which the fingerprint is all there is. Returns None, or what went wrong.");
}

}  // namespace ttap::python
