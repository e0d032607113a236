#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <numeric>

#include "kernel_agreement.h"
#include "sample_tensors.h"

// The kernels give what fingerprint() gives of the same bytes.
namespace ttap::cuda {
namespace {

using test::Bytes;
using test::c_order;
using test::expect_agreement;
using test::Gpu;
using test::Layout;
using test::layouts_of;

// Of some MiB, in vectors of 16 bytes that lie together: like those of attention's heads, and what a slice leaves.
std::vector<Layout> layouts_of_vectors(DType dtype) {
  const auto vector = static_cast<int64_t>(16 / size_of(dtype));
  const int64_t wide = 8 * vector, rows = 1001, heads = 7;
  const int64_t batches = 2 + (int64_t{5} << 20) / (wide * rows * heads * static_cast<int64_t>(size_of(dtype)));
  const auto all = static_cast<size_t>(batches * heads * rows * wide);
  return {
      {"heads first", {batches, heads, rows, wide}, {heads * rows * wide, wide, heads * wide, 1}, 0, all},
      {"half of a row", {batches * heads * rows, wide / 2}, {wide, 1}, static_cast<size_t>(vector), all + 64},
      {"rows backwards",
       {rows, batches * heads * wide},
       {-batches * heads * wide, 1},
       static_cast<size_t>((rows - 1) * batches * heads * wide),
       all},
      {"five dimensions",
       {heads, rows, 2, batches, wide / 2},
       {rows * wide, wide, wide / 2, heads * rows * wide, 1},
       0,
       all},
  };
}

class KernelOf : public ::testing::TestWithParam<DType> {};

TEST_P(KernelOf, agrees_with_the_cpu_for_every_size) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  for (size_t count : {0, 1, 2, 3, 7, 63, 64, 65, 511, 512, 513, 4095, 4096, 4097, 8191, 8193, 100003, (1 << 20) + 1})
    for (const test::KernelCase& each : test::kernel_cases())
      expect_agreement(gpu, each.make(GetParam(), count), c_order(count), GetParam(), each.name);
}

TEST_P(KernelOf, agrees_with_the_cpu_for_large_tensors) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  // A block for each of its warps' hash blocks; more of those than run at once.
  for (size_t mib : {4, 20}) {
    const size_t count = (mib << 20) / size_of(GetParam()) + 3;
    for (const test::KernelCase& each : test::kernel_cases())
      expect_agreement(gpu, each.make(GetParam(), count), c_order(count), GetParam(), each.name);
  }
  const size_t count = (size_t{1} << 24) + 3;
  expect_agreement(gpu, test::any_bits(GetParam(), count), c_order(count), GetParam(), "any bits");
}

TEST_P(KernelOf, agrees_with_the_cpu_for_every_layout) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  for (size_t count : {1, 7, 64, 513, 4097, 100003, (1 << 20) + 1})
    for (const Layout& layout : layouts_of(count))
      expect_agreement(gpu, test::any_bits(GetParam(), layout.stored), layout, GetParam(), "any bits");
}

TEST_P(KernelOf, reads_the_samples_of_every_layout) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  for (const test::SampleLayout& layout : test::sample_layouts()) {
    const test::SampleTensor sample = test::sample_tensor(GetParam(), layout);
    expect_agreement(gpu, sample.storage, {layout.name, sample.shape, sample.strides, sample.offset}, GetParam(), "");
  }
}

TEST_P(KernelOf, agrees_with_the_cpu_for_large_tensors_of_strided_vectors) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  for (const Layout& layout : layouts_of_vectors(GetParam()))
    expect_agreement(gpu, test::any_bits(GetParam(), layout.stored), layout, GetParam(), "any bits");
}

TEST_P(KernelOf, copies_the_logical_bytes_in_the_same_pass) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  for (size_t count : {1, 513, 100003, (1 << 22) + 5})
    for (size_t i = 0; i < 4; ++i) {
      const std::vector<Layout> strided = layouts_of(count);
      const Layout layout = i == 0 ? c_order(count) : i == 3 ? layouts_of_vectors(GetParam())[0] : strided[i - 1];
      const Bytes bytes = test::any_bits(GetParam(), layout.stored);
      const size_t at = layout.offset * size_of(GetParam());
      const TensorView here{bytes.data() + at, GetParam(), layout.shape, layout.strides};
      const size_t size = byte_count(here);
      std::byte* copy = gpu.upload(Bytes(size + 64, std::byte{0xAB}));
      gpu.fingerprint({gpu.upload(bytes) + at, GetParam(), layout.shape, layout.strides}, {}, copy);
      Bytes expected = test::logical_bytes(here);
      expected.resize(size + 64, std::byte{0xAB});
      EXPECT_EQ(gpu.download(copy, size + 64), expected)
          << layout.name << ", " << count << " elements, and nothing after";
      gpu.free_all_but_scratch();
    }
}

INSTANTIATE_TEST_SUITE_P(EveryDType, KernelOf, ::testing::ValuesIn(kAllDTypes),
                         [](const auto& tested) { return std::string(dtype_name(tested.param)); });

TEST(Kernel, agrees_with_the_cpu_for_2_to_the_28_elements) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  const size_t count = size_t{1} << 28;
  const auto try_with = [&](DType dtype, const test::KernelCase& data) {
    expect_agreement(gpu, data.make(dtype, count), c_order(count), dtype, data.name);
  };
  for (DType dtype : {DType::kU8, DType::kBF16, DType::kF16, DType::kI16, DType::kF32, DType::kI32, DType::kF64,
                      DType::kI64, DType::kC64})
    try_with(dtype, test::kernel_cases()[0]);
  for (DType dtype : {DType::kU8, DType::kBF16, DType::kF32}) try_with(dtype, test::kernel_cases()[1]);
}

TEST(Kernel, agrees_with_the_cpu_beyond_2_to_the_32_bytes) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  const size_t count = (size_t{1} << 31) + 12345;
  expect_agreement(gpu, test::any_bits(DType::kBF16, count), c_order(count), DType::kBF16, "any bits");
}

// ---- rows ----

template <class Count>
void expect_rows(Gpu& gpu, const TensorView& here, const std::byte* there, Count rows) {
  const int64_t live = std::clamp<int64_t>(rows, 0, here.shape[0]);
  std::vector<int64_t> live_shape(here.shape.begin(), here.shape.end());
  live_shape[0] = live;
  Bytes of_rows(sizeof rows);
  std::memcpy(of_rows.data(), &rows, sizeof rows);
  const Rows limit{gpu.upload(of_rows), sizeof rows == 8};
  const TensorView live_view{here.data, here.dtype, live_shape, here.strides};
  std::byte* copy = gpu.allocate(byte_count(here));
  const DeviceResult result = gpu.fingerprint({there, here.dtype, here.shape, here.strides}, limit, copy);
  EXPECT_EQ(result.bytes, byte_count(live_view));
  EXPECT_TRUE(test::agrees(to_fingerprint(result), fingerprint(live_view))) << rows << " rows";
  EXPECT_EQ(gpu.download(copy, result.bytes), test::logical_bytes(live_view));
}

TEST(KernelRows, are_read_from_device_memory_when_the_kernel_runs) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  for (const int64_t columns : {1, 3, 1000, 100000}) {
    const std::vector<int64_t> shape = {37, columns};
    for (const std::vector<int64_t>& strides : {std::vector<int64_t>{}, {1, 37}, {columns, 1}}) {
      for (size_t offset : {0, 1}) {
        const Bytes bytes = test::any_bits(DType::kBF16, static_cast<size_t>(37 * columns) + 1);
        const TensorView here{bytes.data() + 2 * offset, DType::kBF16, shape, strides};
        const std::byte* there = gpu.upload(bytes) + 2 * offset;
        for (int rows : {-5, 0, 1, 5, 36, 37, 38, 1 << 30}) {
          expect_rows<int32_t>(gpu, here, there, rows);
          expect_rows<int64_t>(gpu, here, there, rows);
        }
        expect_rows<int64_t>(gpu, here, there, int64_t{1} << 60);
        gpu.free_all_but_scratch();
      }
    }
  }
}

// ---- launches ----

struct Tensors {
  std::vector<Bytes> bytes;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<FingerprintJob> jobs;
};

// Of all dtypes and of sizes from none to some MiB, some of them strided.
Tensors mixed_tensors(Gpu& gpu, size_t count, DeviceResult* results) {
  Tensors made;
  made.bytes.reserve(count);
  made.shapes.reserve(count);
  static const int64_t kBackwards[] = {-1};
  for (size_t i = 0; i < count; ++i) {
    const DType dtype = kAllDTypes[i % std::size(kAllDTypes)];
    const size_t elements = mix64(i) % (i % 7 == 0 ? 1000000 : 20000) * (i % 11 != 3);
    made.bytes.push_back(test::any_bits(dtype, elements, i));
    made.shapes.push_back({static_cast<int64_t>(elements)});
    const std::byte* there = gpu.upload(made.bytes.back());
    FingerprintJob job{.view = {there, dtype, made.shapes.back()}, .result = results + i, .sequence = i + 1};
    if (i % 13 == 5 && elements > 0) {
      job.view.data = there + (elements - 1) * size_of(dtype);
      job.view.strides = kBackwards;
    }
    made.jobs.push_back(job);
  }
  return made;
}

Fingerprint on_cpu(const Tensors& tensors, size_t i) {
  TensorView view = tensors.jobs[i].view;
  view.data = tensors.bytes[i].data();
  if (!view.strides.empty()) view.data = tensors.bytes[i].data() + tensors.bytes[i].size() - size_of(view.dtype);
  return fingerprint(view);
}

TEST(KernelLaunches, many_tensors_at_once_give_what_each_gives_alone) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  constexpr size_t kCount = 150;  // more than one launch takes
  DeviceResult* together = gpu.results_on_device(kCount);
  Tensors tensors = mixed_tensors(gpu, kCount, together);
  gpu.launch(tensors.jobs);
  for (size_t i = 0; i < kCount; ++i) {
    const DeviceResult result = gpu.read(together + i);
    EXPECT_EQ(result.sequence, i + 1);
    EXPECT_TRUE(test::agrees(to_fingerprint(result), on_cpu(tensors, i)))
        << i << ", " << dtype_name(tensors.jobs[i].view.dtype);
  }
}

// More of a dtype than a launch takes; some with strides, one with few live rows.
TEST(KernelLaunches, large_tensors_at_once_give_what_each_gives_alone) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  constexpr DType kDTypes[] = {DType::kBF16, DType::kF32, DType::kF8E4M3FN, DType::kBF16, DType::kI64};
  constexpr size_t kCount = 60;
  DeviceResult* results = gpu.results_on_device(kCount);
  std::vector<Bytes> bytes;
  std::vector<Layout> layouts;
  for (size_t i = 0; i < kCount; ++i) {
    const DType dtype = kDTypes[i % std::size(kDTypes)];
    const size_t elements = (4 << 20) / size_of(dtype) + mix64(i) % 1000000;
    layouts.push_back(i % 3 == 0 ? layouts_of_vectors(dtype)[i % 4] : c_order(elements));
    bytes.push_back(test::any_bits(dtype, layouts.back().stored, i));
  }
  constexpr int64_t kLive = 3;
  std::vector<FingerprintJob> jobs;
  std::vector<TensorView> here;
  for (size_t i = 0; i < kCount; ++i) {
    const DType dtype = kDTypes[i % std::size(kDTypes)];
    const size_t at = layouts[i].offset * size_of(dtype);
    const std::byte* there = gpu.upload(bytes[i]) + at;
    here.push_back({bytes[i].data() + at, dtype, layouts[i].shape, layouts[i].strides});
    jobs.push_back(
        {.view = {there, dtype, layouts[i].shape, layouts[i].strides}, .result = results + i, .sequence = i + 1});
  }
  const std::vector<int64_t> fewer = {kLive, layouts[0].shape[1], layouts[0].shape[2], layouts[0].shape[3]};
  here[0].shape = fewer;
  jobs[0].rows.count = gpu.upload(std::as_bytes(std::span(&kLive, 1)));
  for (int again = 0; again < 3; ++again) {
    gpu.launch(jobs);
    for (size_t i = 0; i < kCount; ++i) {
      const DeviceResult result = gpu.read(results + i);
      EXPECT_EQ(result.sequence, i + 1);
      EXPECT_TRUE(test::agrees(to_fingerprint(result), fingerprint(here[i])))
          << i << ", " << dtype_name(here[i].dtype) << ", " << layouts[i].name;
    }
  }
}

TEST(KernelLaunches, the_same_launch_gives_the_same_bits) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  DeviceResult* results = gpu.results_on_device(60);
  const Tensors tensors = mixed_tensors(gpu, 60, results);
  gpu.launch(tensors.jobs);
  const Bytes once = gpu.download(results, 60 * sizeof(DeviceResult));
  for (int again = 0; again < 20; ++again) {
    EXPECT_TRUE(set_to_zero(results, 60 * sizeof(DeviceResult), gpu.stream()).ok());
    gpu.launch(tensors.jobs);
    EXPECT_EQ(gpu.download(results, 60 * sizeof(DeviceResult)), once);
  }
}

TEST(KernelLaunches, leave_the_scratch_memory_zero) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  DeviceResult* results = gpu.results_on_device(100);
  const Tensors tensors = mixed_tensors(gpu, 100, results);
  gpu.launch(tensors.jobs);
  EXPECT_EQ(gpu.download(gpu.scratch(), kScratchBytes), Bytes(kScratchBytes));
}

TEST(KernelLaunches, run_side_by_side_on_two_streams) {
  TTAP_NEEDS_GPU();
  Gpu one, two;
  DeviceResult* results[] = {one.results_on_device(40), two.results_on_device(40)};
  const Tensors of_one = mixed_tensors(one, 40, results[0]);
  const Tensors of_two = mixed_tensors(two, 40, results[1]);
  for (int again = 0; again < 20; ++again) {
    one.launch(of_one.jobs);
    two.launch(of_two.jobs);
  }
  for (size_t i = 0; i < 40; ++i) {
    EXPECT_TRUE(test::agrees(to_fingerprint(one.read(results[0] + i)), on_cpu(of_one, i))) << i;
    EXPECT_TRUE(test::agrees(to_fingerprint(two.read(results[1] + i)), on_cpu(of_two, i))) << i;
  }
}

TEST(KernelLaunches, the_host_sees_a_result_in_pinned_memory_arrive) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  const PinnedMemory pinned = std::move(pinned_memory(64 * sizeof(DeviceResult)).value());
  auto* results = reinterpret_cast<DeviceResult*>(pinned.get());
  const Tensors tensors = mixed_tensors(gpu, 64, results);
  gpu.launch(tensors.jobs);
  for (size_t i = 0; i < 64; ++i) {
    while (!has_arrived(results[i], i + 1)) {
    }
    EXPECT_TRUE(test::agrees(to_fingerprint(results[i]), on_cpu(tensors, i))) << i;
  }
}

TEST(KernelLaunches, are_replayed_with_a_graph_on_new_input) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  DeviceResult* results = gpu.results_on_device(30);
  Tensors tensors = mixed_tensors(gpu, 30, results);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(gpu.stream(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
  gpu.launch(tensors.jobs);
  ASSERT_EQ(cudaStreamEndCapture(gpu.stream(), &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
  for (uint64_t round = 0; round < 3; ++round) {
    for (size_t i = 0; i < 30; ++i) {
      const DType dtype = tensors.jobs[i].view.dtype;
      tensors.bytes[i] = test::any_bits(dtype, tensors.bytes[i].size() / size_of(dtype), 1000 + 100 * round + i);
      const auto* last = static_cast<const std::byte*>(tensors.jobs[i].view.data);
      const bool backwards = !tensors.jobs[i].view.strides.empty();
      const std::byte* first = backwards ? last + size_of(dtype) - tensors.bytes[i].size() : last;
      ASSERT_EQ(cudaMemcpyAsync(const_cast<std::byte*>(first), tensors.bytes[i].data(), tensors.bytes[i].size(),
                                cudaMemcpyDefault, gpu.stream()),
                cudaSuccess);
    }
    ASSERT_EQ(cudaGraphLaunch(replay, gpu.stream()), cudaSuccess);
    for (size_t i = 0; i < 30; ++i)
      EXPECT_TRUE(test::agrees(to_fingerprint(gpu.read(results + i)), on_cpu(tensors, i)))
          << i << " in round " << round;
  }
  EXPECT_EQ(cudaGraphExecDestroy(replay), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

}  // namespace
}  // namespace ttap::cuda
