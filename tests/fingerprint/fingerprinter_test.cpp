#include "fingerprint/fingerprinter.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "paths.h"

namespace ttap {
namespace {

std::vector<std::byte> sample(size_t bytes) {
  std::mt19937_64 random(31);
  std::normal_distribution<float> distribution(5, 2);
  std::vector<std::byte> sample(bytes);
  for (size_t i = 0; i + 4 <= bytes; i += 4) {
    const float value = distribution(random);
    std::memcpy(&sample[i], &value, 4);
  }
  return sample;
}

Fingerprint whole(const std::vector<std::byte>& bytes, DType dtype) {
  const int64_t shape[] = {static_cast<int64_t>(bytes.size() / size_of(dtype))};
  return fingerprint({bytes.data(), dtype, shape});
}

Fingerprint in_pieces(const std::vector<std::byte>& bytes, DType dtype, size_t piece) {
  Fingerprinter fingerprinter(dtype);
  for (size_t at = 0; at < bytes.size(); at += piece)
    fingerprinter.update(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
  return fingerprinter.finish();
}

void expect_identical(const Fingerprint& a, const Fingerprint& b) {
  EXPECT_EQ(a.hash, b.hash);
  EXPECT_EQ(std::memcmp(&a.stats, &b.stats, sizeof a.stats), 0);
  EXPECT_EQ(a.sketch, b.sketch);
}

TEST(Fingerprinter, pieces_give_the_same_bits_as_the_whole) {
  const auto bytes = sample((size_t{3} << 20) + 5000);
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kU8, DType::kF8E4M3FN, DType::kI64})
    for (size_t piece :
         {size_t{4096}, size_t{12288}, size_t{1} << 16, size_t{1} << 20, (size_t{1} << 20) + 4096, size_t{1} << 22}) {
      SCOPED_TRACE(piece);
      expect_identical(in_pieces(bytes, dtype, piece), whole(bytes, dtype));
    }
}

TEST(ChunkWorker, a_copy_on_the_way_is_the_same_bytes_and_gives_the_same_bits_on_every_path) {
  const auto bytes = sample((size_t{1} << 20) + 100);
  alignas(64) static std::byte target[(size_t{1} << 20) + 164];
  for (const SimdPath path : every_path())
    for (const DType dtype : {DType::kF32, DType::kU8, DType::kF8E5M2FNUZ})
      for (const size_t size : {size_t{0}, size_t{4}, size_t{64}, size_t{4096}, size_t{8292}, bytes.size()}) {
        SCOPED_TRACE(size);
        std::memset(target, 0x55, sizeof target);
        ChunkWorker plain(dtype, {.path = path}), copying(dtype, {.path = path});
        plain.add(std::span(bytes).first(size), 3);
        copying.add_and_copy(std::span(bytes).first(size), 3, target);
        expect_identical(copying.finish(size, copying.end_chunk()), plain.finish(size, plain.end_chunk()));
        EXPECT_EQ(std::memcmp(target, bytes.data(), size), 0);
        EXPECT_EQ(target[size], std::byte{0x55}) << "wrote beyond the end";
      }
}

TEST(Fingerprinter, of_nothing_is_the_fingerprint_of_an_empty_tensor) {
  expect_identical(Fingerprinter(DType::kF32).finish(), whole({}, DType::kF32));
  Fingerprinter fingerprinter(DType::kF32);
  fingerprinter.update({});
  expect_identical(fingerprinter.finish(), whole({}, DType::kF32));
}

TEST(Fingerprinter, takes_the_path_it_is_told) {
  const auto bytes = sample(100000);
  Fingerprinter scalar(DType::kF32, {1, SimdPath::kScalar});
  scalar.update(bytes);
  const int64_t shape[] = {25000};
  expect_identical(scalar.finish(), fingerprint({bytes.data(), DType::kF32, shape}, {1, SimdPath::kScalar}));
}

TEST(FingerprinterDeathTest, a_piece_after_an_odd_one_is_a_bug) {
  const auto bytes = sample(8192);
  Fingerprinter fingerprinter(DType::kF32);
  fingerprinter.update(std::span(bytes).first(4000));
  EXPECT_DEATH(fingerprinter.update(std::span(bytes).first(96)), "kHashBlockBytes");
}

TEST(FingerprinterDeathTest, half_an_element_is_a_bug) {
  const auto bytes = sample(8192);
  Fingerprinter fingerprinter(DType::kF64);
  fingerprinter.update(std::span(bytes).first(4100));
  EXPECT_DEATH(fingerprinter.finish(), "element_size_");
}

}  // namespace
}  // namespace ttap
