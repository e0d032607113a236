#include "python/tensor_bytes.h"

#include <fcntl.h>
#include <nanobind/ndarray.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <new>

#include "python/errors.h"

namespace nb = nanobind;

namespace ttap::python {
namespace {

constexpr uint64_t kMappedBytes = 1 << 20;  // below this a copy is cheaper than a mapping
constexpr std::align_val_t kAlignment{64};  // what torch's own allocator gives

using Bytes = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::object as_array(void* data, uint64_t size, nb::capsule owner) {
  const size_t shape[] = {size};
  return nb::cast(Bytes(data, 1, shape, owner));
}

// A mapping of part of a file, changes to which stay in this process.
struct PrivateMapping {
  void* start;
  size_t size;

  static std::unique_ptr<PrivateMapping> make(const char* path, uint64_t offset, uint64_t size, void*& data) {
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return nullptr;
    const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const uint64_t lead = offset % page;
    void* start = ::mmap(nullptr, size + lead, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file,
                         static_cast<off_t>(offset - lead));
    ::close(file);
    if (start == MAP_FAILED) return nullptr;
    data = static_cast<std::byte*>(start) + lead;
    return std::unique_ptr<PrivateMapping>(new PrivateMapping{start, size + lead});
  }
  ~PrivateMapping() { ::munmap(start, size); }
};

// Element by element in C order; only files of other tools hold strided tensors.
void gather(const TensorView& view, std::byte* out) {
  const size_t size = size_of(view.dtype);
  const auto* data = static_cast<const std::byte*>(view.data);
  std::vector<int64_t> at(view.ndim(), 0);
  for (uint64_t left = element_count(view); left > 0; --left, out += size) {
    int64_t offset = 0;
    for (size_t d = 0; d < view.ndim(); ++d) offset += at[d] * view.strides[d];
    std::memcpy(out, data + offset * static_cast<int64_t>(size), size);
    for (size_t d = view.ndim(); d-- > 0 && ++at[d] == view.shape[d];) at[d] = 0;
  }
}

}  // namespace

nb::object tensor_bytes(const Pass& pass, size_t index) {
  TensorView view;
  uint64_t size = 0;
  Status status;
  std::byte* copy = nullptr;
  std::unique_ptr<PrivateMapping> mapping;
  void* mapped = nullptr;
  {
    const nb::gil_scoped_release released;
    auto read = pass.read(index);  // checks the hash
    if (!read.ok()) {
      status = std::move(read).error();
    } else {
      view = *read;
      size = byte_count(view);
      const auto offset = pass.file_offset(index);
      if (offset && size >= kMappedBytes && pass.info().path.extension() != ".incomplete")
        mapping = PrivateMapping::make(pass.info().path.c_str(), *offset, size, mapped);
      if (!mapping) {
        copy = static_cast<std::byte*>(::operator new(size + 1, kAlignment));
        if (is_contiguous(view)) {
          if (size > 0) std::memcpy(copy, view.data, size);
        } else {
          gather(view, copy);
        }
      }
    }
  }
  raise_if_failed(status);
  if (mapping) {
    const nb::capsule owner(mapping.get(), [](void* p) noexcept { delete static_cast<PrivateMapping*>(p); });
    (void)mapping.release();
    return as_array(mapped, size, owner);
  }
  const nb::capsule owner(copy, [](void* p) noexcept { ::operator delete(p, kAlignment); });
  return as_array(copy, size, owner);
}

}  // namespace ttap::python
