#include "fingerprint/hash128.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "paths.h"
#include "ttap/fingerprint.h"

namespace ttap {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes random_bytes(size_t size, uint32_t seed = 1) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

std::string hash_of(const Bytes& bytes, FingerprintOptions options = {}) {
  const int64_t shape[] = {static_cast<int64_t>(bytes.size())};
  return to_string(fingerprint({bytes.data(), DType::kU8, shape}, options).hash);
}

template <class T>
std::string hash_of_values(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return hash_of(bytes);
}

std::string hash_of_view(const void* data, DType dtype, std::vector<int64_t> shape, std::vector<int64_t> strides = {},
                         FingerprintOptions options = {}) {
  const TensorView view{data, dtype, shape, strides};
  EXPECT_TRUE(validate(view).ok());
  return to_string(fingerprint(view, options).hash);
}

// Sizes at which a stripe, a block or a vector ends.
const size_t kSizes[] = {0,   1,   2,    7,    8,    9,    31,   32,   33,   63,   64,   65,   127,
                         128, 129, 1000, 4032, 4095, 4096, 4097, 4160, 8191, 8192, 8193, 20000};

struct KnownAnswer {
  size_t size;
  const char* hash;
};

// Of the bytes (7·i + 3) mod 251, by tests/python/hash128.py.
const KnownAnswer kKnownAnswers[] = {
    {0, "ccec98b5f8060fb813af99105b58a78d"},     {1, "f7226f341d55faad2fb5d6680912a879"},
    {2, "7e71c595e5785bfd16ea7cb55b5f1804"},     {8, "c0324229d35e6234a59594e40784a022"},
    {63, "6e7c90a1135885c9bd6d89182e54479e"},    {64, "590b5313e52ffcd4fe0f7b5d80275598"},
    {65, "4a4e77615a392b9389afe541dfec9381"},    {100, "d828a5d083ea4d397c4503ca6d8fa29c"},
    {4095, "943471f9599576fd1209fa606fc808e3"},  {4096, "555d2884ad946f844d40b3e77a7c7e38"},
    {4097, "2eab71092fe2d6942571fa7a45f3c086"},  {8192, "03e1f79316437f4ac5dfc764ad1cf55a"},
    {10000, "843e44545149d2d68530666e291be5a8"},
};

TEST(Hash128, is_the_one_in_the_document) {
  for (const auto& [size, hash] : kKnownAnswers) {
    Bytes bytes(size);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>((7 * i + 3) % 251);
    EXPECT_EQ(hash_of(bytes), hash) << size << " bytes";
  }
}

TEST(Hash128, keys_have_no_blind_spot) {
  // Equal keys of a word would hide a swap of its halves, a zero key would hide the other half beside a zero.
  for (uint32_t i = 0; i < kHashKeyCount; ++i) EXPECT_NE(kHashKeys.key[i], 0u);
  const std::set<uint32_t> distinct(std::begin(kHashKeys.key), std::end(kHashKeys.key));
  EXPECT_EQ(distinct.size(), kHashKeyCount);
}

TEST(Hash128, is_the_same_on_every_path) {
  for (size_t size : kSizes) {
    const Bytes bytes = random_bytes(size);
    const std::string scalar = hash_of(bytes, {1, SimdPath::kScalar});
    for (SimdPath path : every_path()) EXPECT_EQ(hash_of(bytes, {1, path}), scalar) << size << simd_path_name(path);
  }
}

TEST(Hash128, is_the_same_at_every_alignment) {
  const Bytes bytes = random_bytes(5000);
  const std::string aligned = hash_of(bytes);
  for (size_t offset = 1; offset < 64; ++offset) {
    Bytes moved(offset + bytes.size());
    std::copy(bytes.begin(), bytes.end(), moved.begin() + static_cast<ptrdiff_t>(offset));
    EXPECT_EQ(hash_of_view(moved.data() + offset, DType::kU8, {5000}), aligned);
    EXPECT_EQ(hash_of_view(moved.data() + offset, DType::kF64, {625}), aligned);
  }
}

TEST(Hash128, does_not_depend_on_dtype_or_shape) {
  const Bytes bytes = random_bytes(9600);
  const std::string plain = hash_of(bytes);
  for (DType dtype : kAllDTypes) {
    const auto count = static_cast<int64_t>(9600 / size_of(dtype));
    EXPECT_EQ(hash_of_view(bytes.data(), dtype, {count}), plain) << dtype_name(dtype);
    EXPECT_EQ(hash_of_view(bytes.data(), dtype, {2, 1, count / 2}), plain) << dtype_name(dtype);
  }
}

TEST(Hash128, does_not_depend_on_statistics_being_made) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kU8, DType::kF8E4M3FN, DType::kC64}) {
    const std::vector<std::byte> bytes(size_of(dtype) * 5001, std::byte{3});
    const std::vector<int64_t> shape{5001};
    const TensorView view{bytes.data(), dtype, shape, {}};
    const Fingerprint hash_only = fingerprint(view, {.statistics = false});
    EXPECT_EQ(hash_only.hash, fingerprint(view).hash);
    EXPECT_FALSE(hash_only.has_sketch);
  }
}

TEST(Hash128, does_not_depend_on_threads) {
  const Bytes bytes = random_bytes((size_t{9} << 20) + 12345);
  const std::string one = hash_of(bytes);
  for (unsigned threads : {0u, 2u, 3u, 4u, 100u}) EXPECT_EQ(hash_of(bytes, {threads, SimdPath::kBest}), one) << threads;
}

TEST(Hash128, a_transposed_tensor_hashes_as_its_copy) {
  for (int64_t rows : {3, 64, 173}) {
    const int64_t columns = 97;
    std::vector<float> matrix(static_cast<size_t>(rows * columns));
    std::iota(matrix.begin(), matrix.end(), 0.5f);
    std::vector<float> copy;
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t i = 0; i < rows; ++i) copy.push_back(matrix[static_cast<size_t>(i * columns + j)]);
    EXPECT_EQ(hash_of_view(matrix.data(), DType::kF32, {columns, rows}, {1, columns}), hash_of_values(copy));
    EXPECT_NE(hash_of_values(matrix), hash_of_values(copy));
  }
}

TEST(Hash128, a_stepped_an_expanded_and_a_reversed_tensor_hash_as_their_copies) {
  std::vector<int16_t> values(30000);
  std::iota(values.begin(), values.end(), int16_t{0});
  const std::vector<int16_t> first(values.begin(), values.begin() + 10000);

  std::vector<int16_t> stepped;
  for (size_t i = 0; i < 10000; ++i) stepped.push_back(values[3 * i]);
  EXPECT_EQ(hash_of_view(values.data(), DType::kI16, {10000}, {3}), hash_of_values(stepped));

  std::vector<int16_t> expanded;
  for (int i = 0; i < 3; ++i) expanded.insert(expanded.end(), first.begin(), first.end());
  EXPECT_EQ(hash_of_view(values.data(), DType::kI16, {3, 10000}, {0, 1}), hash_of_values(expanded));

  std::vector<int16_t> reversed(values.rbegin(), values.rend());
  EXPECT_EQ(hash_of_view(values.data() + 29999, DType::kI16, {30000}, {-1}), hash_of_values(reversed));
}

TEST(Hash128, a_large_strided_tensor_hashes_as_its_copy_on_any_threads) {
  const int64_t rows = 1500, columns = 1000;
  const Bytes bytes = random_bytes(static_cast<size_t>(rows * columns) * 4, 7);
  Bytes copy(bytes.size());
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i)
      std::memcpy(&copy[static_cast<size_t>(j * rows + i) * 4], &bytes[static_cast<size_t>(i * columns + j) * 4], 4);
  for (unsigned threads : {1u, 2u, 3u})
    EXPECT_EQ(hash_of_view(bytes.data(), DType::kI32, {columns, rows}, {1, columns}, {threads, SimdPath::kBest}),
              hash_of(copy));
}

TEST(Hash128, every_single_bit_matters) {
  for (size_t size :
       {size_t{1}, size_t{8}, size_t{64}, size_t{65}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{4200}}) {
    Bytes bytes = random_bytes(size, 3);
    std::set<std::string> seen = {hash_of(bytes)};
    for (size_t bit = 0; bit < 8 * size; ++bit) {
      bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
      EXPECT_TRUE(seen.insert(hash_of(bytes)).second) << "bit " << bit << " of " << size << " bytes";
      bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    }
  }
}

TEST(Hash128, a_set_bit_among_zeros_tells_its_place) {
  Bytes bytes(4 * 4096 + 100);
  std::set<std::string> seen = {hash_of(bytes)};
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = 1;
    EXPECT_TRUE(seen.insert(hash_of(bytes)).second) << "byte " << i;
    bytes[i] = 0;
  }
}

TEST(Hash128, length_matters_even_of_zeros) {
  std::set<std::string> seen;
  for (size_t size = 0; size < 5000; ++size) EXPECT_TRUE(seen.insert(hash_of(Bytes(size))).second) << size;
  for (size_t size : kSizes) {
    Bytes bytes = random_bytes(size);
    const std::string before = hash_of(bytes);
    bytes.push_back(0);
    EXPECT_NE(hash_of(bytes), before) << size;
  }
}

TEST(Hash128, swapping_two_rows_matters) {
  // Rows of 16 bytes up to more than a block.
  for (size_t row : {size_t{16}, size_t{64}, size_t{512}, size_t{4096}, size_t{5000}}) {
    const Bytes bytes = random_bytes(4 * row, 5);
    std::set<std::string> seen = {hash_of(bytes)};
    for (size_t i = 0; i < 4; ++i)
      for (size_t j = i + 1; j < 4; ++j) {
        Bytes swapped = bytes;
        std::swap_ranges(swapped.begin() + static_cast<ptrdiff_t>(i * row),
                         swapped.begin() + static_cast<ptrdiff_t>((i + 1) * row),
                         swapped.begin() + static_cast<ptrdiff_t>(j * row));
        EXPECT_TRUE(seen.insert(hash_of(swapped)).second) << row << ": " << i << " and " << j;
      }
  }
}

TEST(Hash128, swapping_any_two_elements_matters) {
  std::vector<float> values(1100);  // a block and a bit
  std::iota(values.begin(), values.end(), 1.0f);
  std::set<std::string> seen = {hash_of_values(values)};
  for (size_t j = 1; j < values.size(); ++j) {
    std::swap(values[0], values[j]);
    EXPECT_TRUE(seen.insert(hash_of_values(values)).second) << "0 and " << j;
    std::swap(values[0], values[j]);
    std::swap(values[j - 1], values[j]);
    if (j > 1) {
      EXPECT_TRUE(seen.insert(hash_of_values(values)).second) << j - 1 << " and " << j;
    }
    std::swap(values[j - 1], values[j]);
  }
}

TEST(Hash128, sign_matters) {
  std::vector<float> values(300, 1.5f);
  std::set<std::string> seen = {hash_of_values(values)};
  for (float& value : values) {
    value = -value;
    EXPECT_TRUE(seen.insert(hash_of_values(values)).second);
    value = -value;
  }
  for (float& value : values) value = -value;
  EXPECT_TRUE(seen.insert(hash_of_values(values)).second) << "all negated";
  EXPECT_NE(hash_of_values(std::vector<float>(100, 0.0f)), hash_of_values(std::vector<float>(100, -0.0f)));
}

TEST(Hash128, permutations_of_small_integers_differ) {
  EXPECT_NE(hash_of_values(std::vector<int64_t>{0, 1, 1, 0}), hash_of_values(std::vector<int64_t>{1, 0, 0, 1}));
  // The same pattern with its elements a stripe, several stripes and a block apart.
  for (size_t distance : {size_t{1}, size_t{8}, size_t{16}, size_t{64}, size_t{512}}) {
    std::set<std::string> seen;
    std::vector<int> pattern = {0, 0, 1, 1, 2, 3};
    do {
      std::vector<int64_t> values(distance * pattern.size());
      for (size_t i = 0; i < pattern.size(); ++i) values[i * distance] = pattern[i];
      EXPECT_TRUE(seen.insert(hash_of_values(values)).second) << distance;
    } while (std::next_permutation(pattern.begin(), pattern.end()));
  }
}

TEST(Hash128, many_sparse_integer_tensors_do_not_collide) {
  // Two ones among 600 zeros, at every pair of places: 179,700 tensors.
  std::set<std::string> seen;
  std::vector<int64_t> values(600);
  for (size_t i = 0; i < values.size(); ++i)
    for (size_t j = i + 1; j < values.size(); ++j) {
      values[i] = values[j] = 1;
      const int64_t shape[] = {600};
      seen.insert(to_string(fingerprint({values.data(), DType::kI64, shape}).hash));
      values[i] = values[j] = 0;
    }
  EXPECT_EQ(seen.size(), 600u * 599u / 2);
}

TEST(Hash128, prints_high_half_first) {
  EXPECT_EQ(to_string(Hash128{0x1, 0xABCD}), "000000000000abcd0000000000000001");
}

}  // namespace
}  // namespace ttap
