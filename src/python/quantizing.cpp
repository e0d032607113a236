#include "python/quantizing.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cuda/quant_decode.h"
#include "python/errors.h"
#include "python/tensor_access.h"
#include "quant/format_words.h"
#include "ttap/quant.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace ttap::python {
namespace {

// A field that is a word in Python.
template <auto MEMBER>
void def_word(nb::class_<QuantFormat>& type, const char* name) {
  type.def_prop_rw(
      name, [](const QuantFormat& self) { return std::string(word_for(self.*MEMBER)); },
      [](QuantFormat& self, const std::string& word) {
        using Enum = std::remove_reference_t<decltype(self.*MEMBER)>;
        self.*MEMBER = value_or_raise(from_word<Enum>(word));
      });
}

// The bytes of a vector as a one-dimensional array that owns them.
template <class T>
nb::object as_array(std::vector<T> values) {
  auto held = std::make_unique<std::vector<T>>(std::move(values));
  void* data = held->data();
  const size_t shape[] = {held->size() * sizeof(T)};
  const nb::capsule owner(held.get(), [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  (void)held.release();
  return nb::cast(nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>(data, 1, shape, owner));
}

// The tensors of a group, as Python gave them.
struct GroupAccess {
  GroupAccess(const QuantFormat& format, std::vector<int64_t> dims, nb::handle payload, nb::handle scale,
              nb::handle global, nb::handle zero_point)
      : shape(std::move(dims)), payload_access(payload), scale_access(scale) {
    if (!global.is_none()) global_access = std::make_unique<TensorAccess>(global);
    if (!zero_point.is_none()) zero_point_access = std::make_unique<TensorAccess>(zero_point);
    group = {.format = format, .shape = shape, .payload = payload_access.view(), .scale = scale_access.view()};
    if (global_access) group.global = global_access->view();
    if (zero_point_access) group.zero_point = zero_point_access->view();
  }

  std::vector<int64_t> shape;
  TensorAccess payload_access, scale_access;
  std::unique_ptr<TensorAccess> global_access, zero_point_access;
  QuantGroup group;
};

// A tensor to write to: dense and of at least `bytes`.
void* writable(const TensorView& view, uint64_t bytes) {
  if (!is_contiguous(view) || byte_count(view) != bytes)
    throw nb::value_error(("`out` must be contiguous and of " + std::to_string(bytes) + " bytes").c_str());
  return const_cast<void*>(view.data);
}

// `decode` is given the dtype of `out` and where its values go.
template <class Decode>
void decode_into(const GroupAccess& access, nb::handle out, const Decode& decode) {
  const TensorAccess target(out);
  const TensorView view = target.view();
  uint64_t values = 1;
  for (const int64_t length : access.shape) values *= static_cast<uint64_t>(length);
  void* data = writable(view, values * size_of(view.dtype));
  const Status status = [&] {
    const nb::gil_scoped_release released;
    return decode(view.dtype, data);
  }();
  raise_if_failed(status);
}

// A kernel that is handed an address of the host brings the whole process down.
void must_be_on_a_gpu(std::initializer_list<nb::handle> tensors) {
  for (const nb::handle tensor : tensors)
    if (!tensor.is_none() && !nb::cast<bool>(tensor.attr("is_cuda")))
      throw nb::value_error("decoding on a GPU takes CUDA tensors");
}

EncodeOptions encode_options(const std::string& mx_rule, std::optional<float> global, std::optional<float> amax,
                             float smallest_scale) {
  return {.mx_rule = value_or_raise(from_word<MxScaleRule>(mx_rule)),
          .global = global,
          .amax = amax,
          .smallest_scale = smallest_scale};
}

nb::dict encode_tensor(nb::handle tensor, const QuantFormat& format, const EncodeOptions& options) {
  const TensorAccess access(tensor);
  Result<EncodedTensor> result = [&] {
    const nb::gil_scoped_release released;
    return encode(access.view(), format, options);
  }();
  EncodedTensor made = value_or_raise(std::move(result));
  nb::dict parts;
  const auto add = [&](const char* name, auto& bytes, const std::vector<int64_t>& shape) {
    parts[name] =
        bytes.empty() && shape.empty() ? nb::object(nb::none()) : nb::make_tuple(as_array(std::move(bytes)), shape);
  };
  add("payload", made.payload, made.payload_shape);
  add("scale", made.scale, made.scale_shape);
  add("global", made.global, made.global_shape);
  add("zero_point", made.zero_point, made.zero_point_shape);
  return parts;
}

nb::dict as_dict(const QuantStats& stats) {
  nb::dict result;
  result["count"] = stats.count;
  result["not_finite"] = stats.not_finite;
  result["underflow"] = stats.underflow;
  result["overflow"] = stats.overflow;
  result["underflow_percent"] = stats.underflow_percent();
  result["overflow_percent"] = stats.overflow_percent();
  result["mse"] = stats.mse;
  result["sqnr_db"] = stats.sqnr_db;
  result["scale_min"] = stats.scale_min;
  result["scale_max"] = stats.scale_max;
  result["scales_nan"] = stats.scales_nan;
  result["zero_blocks"] = stats.zero_blocks;
  result["amax"] = stats.amax;
  result["dynamic_range"] = stats.dynamic_range;
  result["block_dynamic_range"] = stats.block_dynamic_range;
  result["max_error"] = stats.max_error;
  result["codes"] = stats.codes;
  result["block_amax"] = stats.block_amax;
  result["block_grid"] = nb::make_tuple(stats.block_rows, stats.block_columns);
  return result;
}

void init_format(nb::module_& m) {
  nb::class_<QuantFormat> type(m, "QuantFormat");
  type.def("__copy__", [](const QuantFormat& self) { return self; })
      .def_rw("name", &QuantFormat::name)
      .def_rw("source", &QuantFormat::source)
      .def_rw("block_rows", &QuantFormat::block_rows)
      .def_rw("block_columns", &QuantFormat::block_columns)
      .def_rw("shared_rows", &QuantFormat::shared_rows)
      .def_rw("stored_transposed", &QuantFormat::stored_transposed)
      .def_rw("scale_transposed", &QuantFormat::scale_transposed)
      .def_rw("scale_divides", &QuantFormat::scale_divides)
      .def_rw("global_per_row", &QuantFormat::global_per_row)
      .def_rw("scale_maximum", &QuantFormat::scale_maximum)
      .def_rw("rotated", &QuantFormat::rotated)
      .def_prop_ro("columnwise", &QuantFormat::columnwise)
      .def("to_json", [](const QuantFormat& self) { return to_json(self); });
  def_word<&QuantFormat::element>(type, "element");
  def_word<&QuantFormat::packing>(type, "packing");
  def_word<&QuantFormat::scale_type>(type, "scale_type");
  def_word<&QuantFormat::scale_layout>(type, "scale_layout");
  def_word<&QuantFormat::global>(type, "global_scale");
  def_word<&QuantFormat::zero_point>(type, "zero_point");
  m.def(
      "quant_format", [](const std::string& name) { return value_or_raise(quant_format(name)); }, "name"_a);
  m.def("quant_format_names", &quant_format_names);
  m.def(
      "quant_format_from_json", [](const std::string& text) { return value_or_raise(quant_format_from_json(text)); },
      "text"_a);
}

void init_scales(nb::module_& m) {
  m.def(
      "swizzle_scales",
      [](nb::handle scales, nb::handle out) {
        const TensorAccess from(scales), to(out);
        const TensorView view = from.view();
        if (view.ndim() != 2 || size_of(view.dtype) != 1 || !is_contiguous(view))
          throw nb::value_error("scales to swizzle are a contiguous matrix of bytes");
        const auto rows = static_cast<uint64_t>(view.shape[0]), columns = static_cast<uint64_t>(view.shape[1]);
        auto* target = static_cast<uint8_t*>(writable(to.view(), swizzled_size(rows, columns)));
        const nb::gil_scoped_release released;
        swizzle_scales(static_cast<const uint8_t*>(view.data), rows, columns, columns, target);
      },
      "scales"_a, "out"_a, "Compact scales, a byte each, into the tiles a GEMM wants.");
  m.def(
      "unswizzle_scales",
      [](nb::handle swizzled, nb::handle out) {
        const TensorAccess from(swizzled), to(out);
        const TensorView view = from.view();
        if (size_of(view.dtype) != 1 || !is_contiguous(view))
          throw nb::value_error("swizzled scales are contiguous bytes");
        if (to.view().ndim() != 2) throw nb::value_error("`out` is a matrix of bytes");
        const auto rows = static_cast<uint64_t>(to.view().shape[0]),
                   columns = static_cast<uint64_t>(to.view().shape[1]);
        auto* target = static_cast<uint8_t*>(writable(to.view(), rows * columns));
        const Status status = [&] {
          const nb::gil_scoped_release released;
          return unswizzle_scales(static_cast<const uint8_t*>(view.data), byte_count(view), rows, columns, target);
        }();
        raise_if_failed(status);
      },
      "swizzled"_a, "out"_a, "The inverse of swizzle_scales; `out` says how many rows and columns.");
  m.def(
      "quant_decode_scales",
      [](const QuantFormat& format, std::vector<int64_t> shape, nb::handle payload, nb::handle scale, nb::handle global,
         nb::handle zero_point) {
        const GroupAccess access(format, std::move(shape), payload, scale, global, zero_point);
        DecodedScales scales = value_or_raise(decode_scales(access.group));
        return nb::make_tuple(as_array(std::move(scales.values)), nb::make_tuple(scales.rows, scales.columns));
      },
      "format"_a, "shape"_a, "payload"_a, "scale"_a, "global_scale"_a.none() = nb::none(),
      "zero_point"_a.none() = nb::none(), "The scale of each block as f32, with the global one: bytes and shape.");
}

void init_statistics(nb::module_& m) {
  m.def(
      "quant_statistics",
      [](nb::handle tensor, const std::vector<QuantFormat>& recipes, const std::string& mx_rule,
         std::optional<float> amax, bool block_amax) {
        const TensorAccess access(tensor);
        const QuantStatsOptions options{.encode = encode_options(mx_rule, {}, amax, 0), .block_amax = block_amax};
        Result<std::vector<QuantStats>> result = [&] {
          const nb::gil_scoped_release released;
          return quant_statistics(access.view(), recipes, options);
        }();
        nb::list found;
        for (const QuantStats& stats : value_or_raise(std::move(result))) found.append(as_dict(stats));
        return found;
      },
      "tensor"_a, "recipes"_a, nb::kw_only(), "mx_rule"_a = "floor", "amax"_a.none() = nb::none(),
      "block_amax"_a = false, "What each recipe would do to a tensor.");
  m.def(
      "quant_group_statistics",
      [](nb::handle tensor, const QuantFormat& format, nb::handle payload, nb::handle scale, nb::handle global,
         nb::handle zero_point, bool block_amax) {
        const TensorAccess twin(tensor);
        const auto shape = twin.view().shape;
        const GroupAccess access(format, {shape.begin(), shape.end()}, payload, scale, global, zero_point);
        Result<QuantStats> result = [&] {
          const nb::gil_scoped_release released;
          return quant_statistics(twin.view(), access.group, block_amax);
        }();
        return as_dict(value_or_raise(std::move(result)));
      },
      "tensor"_a, "format"_a, "payload"_a, "scale"_a, "global_scale"_a.none() = nb::none(),
      "zero_point"_a.none() = nb::none(), "block_amax"_a = false,
      "What was done to a tensor: a quantized group against the tensor it was made from.");
}

}  // namespace

void init_quantizing(nb::module_& m) {
  init_format(m);
  init_scales(m);
  init_statistics(m);
  m.def(
      "quant_decode",
      [](const QuantFormat& format, std::vector<int64_t> shape, nb::handle payload, nb::handle scale, nb::handle global,
         nb::handle zero_point, nb::handle out) {
        const GroupAccess access(format, std::move(shape), payload, scale, global, zero_point);
        decode_into(access, out, [&](DType dtype, void* data) { return decode(access.group, dtype, data); });
      },
      "format"_a, "shape"_a, "payload"_a, "scale"_a, "global_scale"_a.none() = nb::none(),
      "zero_point"_a.none() = nb::none(), nb::kw_only(), "out"_a,
      "The values of a quantized group into `out`, whose dtype they get.");
  m.def(
      "quant_decode_gpu",
      [](const QuantFormat& format, std::vector<int64_t> shape, nb::handle payload, nb::handle scale, nb::handle global,
         nb::handle zero_point, nb::handle out, int device, uintptr_t stream) {
        must_be_on_a_gpu({payload, scale, global, zero_point, out});
        const GroupAccess access(format, std::move(shape), payload, scale, global, zero_point);
        decode_into(access, out, [&](DType dtype, void* data) {
          return cuda::decode_on_gpu(access.group, dtype, data, device, reinterpret_cast<cuda::Stream>(stream));
        });
      },
      "format"_a, "shape"_a, "payload"_a, "scale"_a, "global_scale"_a.none() = nb::none(),
      "zero_point"_a.none() = nb::none(), nb::kw_only(), "out"_a, "device"_a, "stream"_a,
      "The same with CUDA tensors: on their device and a stream of it, which is not waited for.");
  m.def(
      "quant_encode",
      [](nb::handle tensor, const QuantFormat& format, const std::string& mx_rule, std::optional<float> global,
         std::optional<float> amax, float smallest_scale) {
        return encode_tensor(tensor, format, encode_options(mx_rule, global, amax, smallest_scale));
      },
      "tensor"_a, "format"_a, nb::kw_only(), "mx_rule"_a = "floor", "global_scale"_a.none() = nb::none(),
      "amax"_a.none() = nb::none(), "smallest_scale"_a = 0.0F,
      "Quantizes a tensor: the parts by name, each as bytes and shape, or None.");
}

}  // namespace ttap::python
