#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cuda/kernels/launch.h"
#include "cuda/runtime/runtime.h"
#include "ttap/dtype.h"

// How fast the GPU takes fingerprints, beside a kernel that only adds up the same bytes. Plain lines of text; every
// time is the median of several graph replays of many launches, so that the gaps between launches by the host are left
// out.
namespace ttap::cuda {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr unsigned kThreads = 512;
constexpr int kLargeLaunches = 12;

void must(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(error));
  std::exit(0);
}

// The yardstick: 16-byte loads, four of them on their way, one addition for each word.
__global__ void __launch_bounds__(kThreads) plain_sum(const uint4* data, uint64_t vectors, unsigned* sums) {
  unsigned sum = 0;
  const uint64_t step = uint64_t{gridDim.x} * kThreads;
  uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (; i + 3 * step < vectors; i += 4 * step) {
    const uint4 a = __ldg(data + i), b = __ldg(data + i + step), c = __ldg(data + i + 2 * step),
                d = __ldg(data + i + 3 * step);
    sum += a.x + a.y + a.z + a.w + b.x + b.y + b.z + b.w + c.x + c.y + c.z + c.w + d.x + d.y + d.z + d.w;
  }
  for (; i < vectors; i += step) {
    const uint4 a = __ldg(data + i);
    sum += a.x + a.y + a.z + a.w;
  }
  for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(~0u, sum, lane);
  if (threadIdx.x % 32 == 0) atomicAdd(sums, sum);
}

__device__ uint64_t random_bits(uint64_t i) {
  i = (i ^ (i >> 30)) * 0xBF58476D1CE4E5B9u;
  i = (i ^ (i >> 27)) * 0x94D049BB133111EBu;
  return i ^ (i >> 31);
}

__device__ float about_normal(uint64_t i) {
  const uint64_t bits = random_bits(i);
  float sum = -2;
  for (int part = 0; part < 4; ++part) sum += static_cast<float>(bits >> (16 * part) & 0xFFFF) / 65536.0f;
  return 1.7f * sum;
}

template <class T>
__global__ void fill(T* data, uint64_t count, bool half_zeros, float scale) {
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += uint64_t{gridDim.x} * blockDim.x) {
    const bool zero = half_zeros && (random_bits(i ^ 0x5555) & 1) != 0;
    data[i] = zero ? T(0.0f) : static_cast<T>(about_normal(i) * scale);
  }
}

template <class T>
void fill_with(std::byte* memory, uint64_t bytes, bool half_zeros, float scale) {
  fill<<<2048, 256>>>(reinterpret_cast<T*>(memory), bytes / sizeof(T), half_zeros, scale);
  must(cudaDeviceSynchronize(), "filling");
}

void fill_dtype(DType dtype, std::byte* memory, uint64_t bytes, bool half_zeros) {
  switch (dtype) {
    case DType::kBF16: return fill_with<__nv_bfloat16>(memory, bytes, half_zeros, 1);
    case DType::kF16: return fill_with<__half>(memory, bytes, half_zeros, 1);
    case DType::kF32: return fill_with<float>(memory, bytes, half_zeros, 1);
    case DType::kF64: return fill_with<double>(memory, bytes, half_zeros, 1);
    case DType::kF8E4M3FN: return fill_with<__nv_fp8_e4m3>(memory, bytes, half_zeros, 1);
    case DType::kI32: return fill_with<int>(memory, bytes, half_zeros, 1e6f);
    case DType::kI64: return fill_with<long long>(memory, bytes, half_zeros, 1e6f);
    default: return fill_with<signed char>(memory, bytes, half_zeros, 50);
  }
}

// Microseconds for one of `launches` launches, each by `launch(i)`.
double time_of(cudaStream_t stream, int launches, const std::function<void(int)>& launch) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < launches; ++i) launch(i);
  must(cudaStreamEndCapture(stream, &graph), "capture");
  must(cudaGraphInstantiate(&replay, graph, 0), "instantiate");
  cudaEvent_t begin, end;
  must(cudaEventCreate(&begin), "event");
  must(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = 0; i < 7; ++i) {
    must(cudaEventRecord(begin, stream), "record");
    must(cudaGraphLaunch(replay, stream), "replay");
    must(cudaEventRecord(end, stream), "record");
    must(cudaEventSynchronize(end), "replay");
    float milliseconds = 0;
    must(cudaEventElapsedTime(&milliseconds, begin, end), "time");
    if (i >= 2) times.push_back(milliseconds);
  }
  std::sort(times.begin(), times.end());
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  return 1000.0 * times[times.size() / 2] / launches;
}

struct Bench {
  cudaStream_t stream = nullptr;
  std::byte* pool = nullptr;  // beyond the second-level cache
  uint64_t pool_bytes = 0;
  void* scratch = nullptr;
  DeviceResult* results = nullptr;
  DeviceResult* pinned_results = nullptr;
  bool watched = false;  // the results, by the host
  bool sketched = false;
  std::byte* copy_to = nullptr;
  unsigned* sums = nullptr;
  unsigned blocks = 0;

  double plain(uint64_t bytes) {
    const uint64_t places = pool_bytes / bytes;
    return time_of(stream, kLargeLaunches, [&](int i) {
      plain_sum<<<blocks, kThreads, 0, stream>>>(reinterpret_cast<const uint4*>(pool + i % places * bytes), bytes / 16,
                                                 sums);
    });
  }
  double fingerprint(DType dtype, uint64_t bytes, int count = 1, int launches = kLargeLaunches) {
    const uint64_t places = pool_bytes / (bytes * count);
    const int64_t shape[] = {static_cast<int64_t>(bytes / size_of(dtype))};
    return time_of(stream, launches, [&](int launch) {
      std::vector<FingerprintJob> jobs(count);
      for (int i = 0; i < count; ++i)
        jobs[i] = {.view = {pool + (launch % places * count + i) * bytes, dtype, shape},
                   .copy_to = copy_to,
                   .result = results + i,
                   .is_watched = watched,
                   .is_sketched = sketched};
      const Status status = launch_fingerprints(jobs, scratch, stream);
      if (!status.ok()) std::printf("%s\n", status.error().message.c_str());
    });
  }
};

// Gives a line of the ratios that count, for the end of the output.
std::string large(Bench& bench) {
  std::string summary = "ratios at 1024 MiB, normal:";
  std::printf("%-10s %9s %-10s %16s %16s %6s\n", "dtype", "MiB", "data", "fingerprint GB/s", "plain sum GB/s", "ratio");
  for (DType dtype :
       {DType::kBF16, DType::kF16, DType::kF32, DType::kF64, DType::kU8, DType::kF8E4M3FN, DType::kI32, DType::kI64})
    for (const bool half_zeros : {false, true}) {
      fill_dtype(dtype, bench.pool, bench.pool_bytes, half_zeros);
      for (uint64_t size : {256 * kMiB, 1024 * kMiB}) {
        const double ours = bench.fingerprint(dtype, size);
        const double plain = bench.plain(size);
        std::printf("%-10s %9llu %-10s %16.0f %16.0f %6.3f\n", std::string(dtype_name(dtype)).c_str(),
                    static_cast<unsigned long long>(size / kMiB), half_zeros ? "half zeros" : "normal",
                    static_cast<double>(size) / ours / 1000, static_cast<double>(size) / plain / 1000, plain / ours);
        if (half_zeros || size != 1024 * kMiB) continue;
        char ratio[32];
        std::snprintf(ratio, sizeof ratio, " %.3f", plain / ours);
        summary += " " + std::string(dtype_name(dtype)) + ratio;
      }
    }
  return summary;
}

__global__ void nothing() {}

void small(Bench& bench) {
  std::printf("\n%-34s %10s\n", "one launch, in a graph of 200", "µs");
  const double empty = time_of(bench.stream, 200, [&](int) { nothing<<<1, 32, 0, bench.stream>>>(); });
  std::printf("%-34s %10.2f\n", "an empty kernel", empty);
  for (DType dtype : {DType::kBF16, DType::kF32, DType::kU8, DType::kI32, DType::kF64, DType::kI64}) {
    fill_dtype(dtype, bench.pool, bench.pool_bytes, false);
    const std::string of = std::string(dtype_name(dtype)) + ", ";
    for (uint64_t size : {uint64_t{4096}, 64 * kMiB / 1024, kMiB / 4, kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB})
      std::printf("%-34s %10.2f\n", (of + std::to_string(size / 1024) + " KiB").c_str(),
                  bench.fingerprint(dtype, size, 1, 200));
    if (dtype == DType::kBF16) {
      std::swap(bench.results, bench.pinned_results);
      bench.watched = true;
      std::printf("%-34s %10.2f\n", "bf16, 4 KiB, result pinned", bench.fingerprint(dtype, 4096, 1, 200));
      std::swap(bench.results, bench.pinned_results);
      bench.watched = false;
    }
    if (dtype == DType::kF32) {
      must(cudaMalloc(&bench.copy_to, kMiB), "memory");
      std::printf("%-34s %10.2f\n", "f32, 1024 KiB, with a copy", bench.fingerprint(dtype, kMiB, 1, 200));
      must(cudaFree(std::exchange(bench.copy_to, nullptr)), "memory");
    }
    for (uint64_t size : {uint64_t{4096}, uint64_t{32768}, uint64_t{102400}})
      std::printf("%-34s %10.2f\n", (of + "32 x " + std::to_string(size / 1024) + " KiB").c_str(),
                  bench.fingerprint(dtype, size, 32, 200));
  }
}

void strided(Bench& bench) {
  fill_dtype(DType::kBF16, bench.pool, bench.pool_bytes, false);
  const int64_t shape[] = {8192, 8192};
  const auto time = [&](const char* what, std::vector<int64_t> strides, uint64_t offset) {
    const double us = time_of(bench.stream, 10, [&](int i) {
      const FingerprintJob job{.view = {bench.pool + i % 4 * 256 * kMiB + offset, DType::kBF16, shape, strides},
                               .result = bench.results};
      (void)launch_fingerprints({&job, 1}, bench.scratch, bench.stream);
    });
    std::printf("%-34s %10.1f µs %8.0f GB/s\n", what, us, 2.0 * 8192 * 8192 / us / 1000);
  };
  std::printf("\n8192 x 8192 bf16 (128 MiB)\n");
  time("C order", {8192, 1}, 0);
  time("rows of a wider matrix", {9216, 1}, 0);
  time("one element off", {8192, 1}, 2);
  time("transposed", {1, 8192}, 0);
  // The innermost dimension is the shortest there is.
  const int64_t image[] = {128, 512, 512, 3}, channels_first[] = {3 * 512 * 512, 512, 1, 512 * 512};
  const double us = time_of(bench.stream, 10, [&](int) {
    const FingerprintJob job{.view = {bench.pool, DType::kF32, image, channels_first}, .result = bench.results};
    (void)launch_fingerprints({&job, 1}, bench.scratch, bench.stream);
  });
  std::printf("%-34s %10.1f µs %8.0f GB/s\n", "three channels last, f32", us, 4.0 * 128 * 512 * 512 * 3 / us / 1000);
  for (const int64_t edge : {128, 724}) {
    const int64_t square[] = {edge, edge}, transposed[] = {1, edge};
    const double small_us = time_of(bench.stream, 200, [&](int) {
      const FingerprintJob job{.view = {bench.pool, DType::kBF16, square, transposed}, .result = bench.results};
      (void)launch_fingerprints({&job, 1}, bench.scratch, bench.stream);
    });
    std::printf("%-34s %10.2f µs\n", ("transposed, " + std::to_string(2 * edge * edge / 1024) + " KiB").c_str(),
                small_us);
  }
}

int run() {
  if (!available()) {
    std::printf("no GPU (%s)\n", unavailable_reason().c_str());
    return 0;
  }
  cudaDeviceProp device;
  must(cudaGetDeviceProperties(&device, 0), "properties");
  std::printf("%s, %d multiprocessors, %d MiB of second-level cache\n\n", device.name, device.multiProcessorCount,
              static_cast<int>(device.l2CacheSize / static_cast<int>(kMiB)));
  Bench bench;
  bench.pool_bytes = 4096 * kMiB;
  bench.blocks = static_cast<unsigned>(device.multiProcessorCount) * 4;
  must(cudaStreamCreateWithFlags(&bench.stream, cudaStreamNonBlocking), "stream");
  must(cudaMalloc(&bench.pool, bench.pool_bytes), "memory");
  must(cudaMalloc(&bench.scratch, kScratchBytes), "memory");
  must(cudaMemset(bench.scratch, 0, kScratchBytes), "memory");
  must(cudaMalloc(&bench.results, 64 * sizeof(DeviceResult)), "memory");
  must(cudaMallocHost(&bench.pinned_results, 64 * sizeof(DeviceResult)), "memory");
  must(cudaMalloc(&bench.sums, sizeof(unsigned)), "memory");
  std::string summary;
  for (const bool sketched : {false, true}) {
    bench.sketched = sketched;
    std::printf("\nLevel %s\n", sketched ? "sketch" : "fingerprint");
    summary += large(bench) + (sketched ? "" : "; with a sketch, ");
    small(bench);
  }
  strided(bench);
  std::printf("\n%s\n", summary.c_str());
  return 0;
}

}  // namespace
}  // namespace ttap::cuda

int main() { return ttap::cuda::run(); }
