// What the decoding kernels compute, their launches played by the host thread by thread: each format and layout.
#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/kernels/quant/quant_threads.h"
#include "cuda/quant_decode.h"
#include "quant_cases.h"

namespace ttap::cuda {
namespace {

// Calls `f` for every thread of a launch.
template <class Function>
void for_all_threads(uint32_t blocks, Function&& f) {
  for (uint32_t block = 0; block < blocks; ++block)
    for (uint32_t thread = 0; thread < kQuantThreads; ++thread) f(ThreadPlace{thread, block, blocks});
}

template <class T>
void play_tiles(const QuantJob& job) {
  QuantTile<T> tile;
  for (uint64_t i = 0; i < tiles_of(job); ++i) {
    std::memset(&tile, 0xAB, sizeof tile);
    for (uint32_t thread = 0; thread < kQuantThreads; ++thread) fill_tile(job, i, thread, tile);
    for (uint32_t thread = 0; thread < kQuantThreads; ++thread) empty_tile(job, i, thread, tile);
  }
}

// What launch_quant_decode() launches, with fewer blocks when `few`, so that threads go round.
void play(const QuantJob& job, bool few = false) {
  const auto blocks = [&](uint32_t all) { return few ? std::min(all, 2u) : all; };
  const bool wide = job.dtype == DType::kF64;
  if (job.scale_each) {
    for_all_threads(blocks(quant_blocks(job.units, kQuantThreads)), [&](ThreadPlace at) {
      job.element == QuantElement::kE4M3 ? decode_units_of_columns<QuantElement::kE4M3>(job, at)
                                         : decode_units_of_columns<QuantElement::kE5M2>(job, at);
    });
  } else if (job.units > 0) {
    for_all_threads(blocks(blocks_of_units(job)), [&](ThreadPlace at) {
      with_kernel(job, [&]<QuantElement ELEMENT, bool PACKED, UnitScales SCALES>() {
        decode_units<ELEMENT, PACKED, SCALES>(job, at);
      });
    });
  } else if (job.transposed) {
    wide ? play_tiles<double>(job) : play_tiles<float>(job);
  } else {
    for_all_threads(blocks(blocks_of_values(job)),
                    [&](ThreadPlace at) { wide ? decode_values<double>(job, at) : decode_values<float>(job, at); });
  }
}

// Bytes at `offset` after a multiple of 256, as device memory has them, with something behind them.
class Placed {
 public:
  explicit Placed(const std::vector<uint8_t>& bytes, size_t offset = 0)
      : size_(bytes.size()), offset_(offset), memory_((bytes.size() + offset) / sizeof(Line) + 2) {
    std::memset(memory_.data(), 0xAB, memory_.size() * sizeof(Line));
    std::copy(bytes.begin(), bytes.end(), data());
  }
  uint8_t* data() { return reinterpret_cast<uint8_t*>(memory_.data()) + offset_; }
  std::vector<uint8_t> bytes() { return {data(), data() + size_}; }
  bool is_untouched_behind() {
    return std::all_of(data() + size_, data() + size_ + 64, [](auto b) { return b == 0xAB; });
  }

 private:
  struct alignas(256) Line {
    uint8_t bytes[256];
  };
  size_t size_, offset_;
  std::vector<Line> memory_;
};

enum class Path { kUnits, kColumns, kTiles, kValues, kCount };

class QuantDecode : public testing::TestWithParam<DType> {
 protected:
  // Plays the launch and holds its result against the CPU's decoder.
  void compare(const test::QuantParts& parts, const std::string& what, bool by_units, bool few, size_t payload_offset,
               size_t target_offset) {
    const DType dtype = GetParam();
    std::vector<uint8_t> wanted(parts.values() * size_of(dtype));
    ASSERT_TRUE(decode(parts.group(), dtype, wanted.data()).ok()) << what;
    Placed payload(parts.payload, payload_offset), scale(parts.scale), global(parts.global), zero(parts.zero);
    Placed target(std::vector<uint8_t>(wanted.size()), target_offset);
    const auto job = quant_job(parts.group(payload.data(), scale.data(), global.data(), zero.data()), dtype,
                               target.data(), by_units);
    ASSERT_TRUE(job.ok()) << what << ": " << job.error().message;
    play(*job, few);
    EXPECT_TRUE(target.is_untouched_behind()) << what;
    EXPECT_EQ(test::first_difference(dtype, wanted, target.bytes()), "") << what << ", units " << job->units;
    const Path path = job->scale_each   ? Path::kColumns
                      : job->units > 0  ? Path::kUnits
                      : job->transposed ? Path::kTiles
                                        : Path::kValues;
    ++taken_[static_cast<size_t>(path)];
  }

  size_t taken_[static_cast<size_t>(Path::kCount)] = {};
};

TEST_P(QuantDecode, GivesTheBitsOfTheCpu) {
  for (const test::QuantCase& each : test::quant_cases())
    for (const auto& shape : test::quant_shapes()) {
      const test::QuantParts parts = test::parts_of(each.format, shape, 7);
      std::string what = each.name + " of";
      for (const int64_t length : shape) what += " " + std::to_string(length);
      compare(parts, what, true, false, 0, 0);
      compare(parts, what + ", with few blocks", true, true, 0, 0);
      compare(parts, what + ", value by value", false, false, 0, 0);
      compare(parts, what + ", payload off", true, false, 1, 0);
      compare(parts, what + ", target off", true, false, 0, size_of(GetParam()));
    }
  // Every path was there to be compared.
  const bool wide = GetParam() == DType::kF64;
  EXPECT_EQ(taken_[static_cast<size_t>(Path::kUnits)] > 300, !wide);
  EXPECT_EQ(taken_[static_cast<size_t>(Path::kColumns)] > 20, !wide);
  EXPECT_GT(taken_[static_cast<size_t>(Path::kTiles)], 300u);
  EXPECT_GT(taken_[static_cast<size_t>(Path::kValues)], 300u);
}

// One long row whose length is no multiple of anything.
TEST_P(QuantDecode, FinishesWhatIsLeftOfARow) {
  for (const char* name : {"fp8_e4m3", "fp8_e5m2", "int8_tensor"})
    for (const int64_t length : {7, 8, 9, 4095, 10'003})
      compare(test::parts_of(quant_format(name).value(), {length}), name, true, false, 0, 0);
}

INSTANTIATE_TEST_SUITE_P(DTypes, QuantDecode, testing::Values(DType::kF32, DType::kBF16, DType::kF16, DType::kF64),
                         [](const auto& tested) { return std::string(dtype_name(tested.param)); });

// Every code with every scale, what is not a number among both.
TEST(QuantUnits, EveryCodeWithEveryScale) {
  for (const char* name : {"mxfp8_e4m3", "mxfp8_e5m2", "mxfp4"})
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      test::QuantParts parts = test::parts_of(quant_format(name).value(), {256, 256});
      const size_t row = parts.payload.size() / 256;
      for (size_t i = 0; i < 256; ++i) {
        for (size_t k = 0; k < row; ++k) parts.payload[i * row + k] = static_cast<uint8_t>(k);
        std::memset(parts.scale.data() + i * 8, static_cast<int>(i), 8);
      }
      const size_t bytes = parts.values() * size_of(dtype);
      std::vector<uint8_t> wanted(bytes);
      ASSERT_TRUE(decode(parts.group(), dtype, wanted.data()).ok());
      Placed target(std::vector<uint8_t>(bytes, 0)), payload(parts.payload);
      const QuantJob job =
          quant_job(parts.group(payload.data(), parts.scale.data(), nullptr, nullptr), dtype, target.data()).value();
      EXPECT_EQ(job.units, 256u * 256 / kUnit);
      play(job);
      EXPECT_EQ(test::first_difference(dtype, wanted, target.bytes()), "") << name << ' ' << ttap::dtype_name(dtype);
    }
}

// What only the device does with it is a multiplication by 2^14.
TEST(QuantUnits, FourBitsAsHalves) {
  for (uint32_t code = 0; code < 16; ++code)
    for (int i = 0; i < 8; ++i) {
      const uint32_t word = 0x5A96C3F1u & ~(0xFu << 4 * i);
      const uint32_t halves = halves_of_e2m1(word | code << 4 * i, i % 4);
      const float value = f32_of_f16(static_cast<uint16_t>(i < 4 ? halves : halves >> 16)) * 16384;
      EXPECT_EQ(detail::bits_of_float(value), detail::bits_of_float(f32_of_e2m1fn(static_cast<uint8_t>(code)))) << code;
    }
}

TEST(QuantUnits, DividesAsDivisionDoes) {
  for (const uint64_t by : {1u, 2u, 3u, 5u, 7u, 64u, 80u, 4095u, 4096u, 4097u, 1000003u, 0x3FFFFFFFu}) {
    const Divisor made = divisor(by);
    for (const uint64_t number :
         {uint64_t{0}, by - 1, by, by + 1, 2 * by - 1, 17 * by, uint64_t{0x7FFFFFFE}, uint64_t{0x7FFFFFFF}})
      if (number < (uint64_t{1} << 31)) {
        EXPECT_EQ(made.divide(static_cast<uint32_t>(number)), number / by) << number << " by " << by;
        EXPECT_EQ(made.divide_any(number << 8), (number << 8) / by) << number << " by " << by;
      }
  }
}

// Bytes that lie apart are read where they lie; what a kernel's parameters cannot describe is refused.
TEST(QuantUnits, ReadsStrides) {
  const test::QuantParts parts = test::parts_of(quant_format("mxfp8").value(), {4, 6, 64});
  std::vector<uint8_t> apart(2 * parts.payload.size());
  for (size_t i = 0; i < parts.payload.size(); ++i) apart[2 * i] = parts.payload[i];
  QuantGroup group = parts.group();
  const int64_t strides[] = {2 * 6 * 64, 2 * 64, 2};
  group.payload = {apart.data(), DType::kU8, parts.shape, strides};
  const size_t bytes = parts.values() * 4;
  std::vector<uint8_t> wanted(bytes), found(bytes);
  ASSERT_TRUE(decode(group, DType::kF32, wanted.data()).ok());
  const QuantJob job = quant_job(group, DType::kF32, found.data()).value();
  EXPECT_EQ(job.units, 0u);
  play(job);
  EXPECT_EQ(test::first_difference(DType::kF32, wanted, found), "");

  const int64_t shape[] = {2, 2, 3, 2, 32, 2}, scattered[] = {1, 6, 2, 500, 12, 1000};
  group.payload = {apart.data(), DType::kU8, shape, scattered};
  const auto refused = quant_job(group, DType::kF32, found.data());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace ttap::cuda
