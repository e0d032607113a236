#include <gtest/gtest.h>

#include "kernel_agreement.h"

// The kernels' statistics of data whose sums are hard to keep: outliers, values far from zero, huge ones.
namespace ttap::cuda {
namespace {

using test::Bytes;
using test::c_order;
using test::expect_agreement;
using test::Gpu;
using test::Layout;
using test::layouts_of;

// Distances are from the first value: the worst there can be.
TEST(KernelStats, keep_the_spread_about_an_outlier_in_front) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  for (DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kI64})
    for (size_t count : {size_t{1000}, size_t{1} << 18, size_t{1} << 21, size_t{20000000}})
      for (double outlier : {-5e5, 2e6, 1e9}) {
        const Bytes bytes = test::values_of(dtype, count, [&](size_t i) {
          return test::bits_of(dtype, i == 0 ? outlier : 70000 + 1000 * test::about_normal(9, i));
        });
        expect_agreement(gpu, bytes, c_order(count), dtype, "an outlier of " + std::to_string(outlier));
      }
}

TEST(KernelStats, keep_the_mean_of_equal_values_behind_an_outlier) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  const auto try_with = [&](DType dtype, double outlier, double value) {
    for (size_t count : {size_t{1000}, size_t{1} << 15, size_t{1} << 18, size_t{3000000}})
      expect_agreement(
          gpu, test::values_of(dtype, count, [&](size_t i) { return test::bits_of(dtype, i == 0 ? outlier : value); }),
          c_order(count), dtype, "behind an outlier");
  };
  try_with(DType::kF64, 1.1e9, 0.1);
  try_with(DType::kF32, 0x1p54, 0.9);
  try_with(DType::kI64, -0x1p63, 1000);
  try_with(DType::kI64, 0x1p62, 300);
}

// Places of which a thread may take what its distances are from: its mean is what is left of large sums then.
TEST(KernelStats, keep_the_mean_behind_two_outliers) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  const auto try_with = [&](DType dtype, double outlier, size_t count, size_t first, size_t second) {
    for (const Layout& layout : {c_order(count), layouts_of(count)[1]}) {
      const Bytes bytes = test::values_of(dtype, layout.stored, [&](size_t i) {
        return test::bits_of(dtype, i == first || i == second ? outlier : 0.3 * double(i % 3));
      });
      expect_agreement(gpu, bytes, layout, dtype,
                       "outliers at " + std::to_string(first) + " and " + std::to_string(second));
    }
  };
  for (const size_t second : {1, 2, 3, 512, 513, 1024, 1536, 1537})
    for (const size_t first : {size_t{0}, second - 1}) {
      for (const double outlier : {1.1e9, 1.1e20, 1.1e136}) {
        try_with(DType::kF64, outlier, 1000003, first, second);
        try_with(DType::kF64, outlier, 9000001, first, second);
      }
      try_with(DType::kF32, 1.1e30, 9000001, first, second);
    }
  for (const double outlier : {1.1e9, 1.1e136}) try_with(DType::kF64, outlier, size_t{1} << 28, 0, 1);
}

// A NaN leaves fewer values to choose from.
TEST(KernelStats, keep_the_mean_behind_an_outlier_and_a_nan) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  const auto try_with = [&](DType dtype, double outlier, double value, size_t nan_at) {
    for (const size_t count : {size_t{1000003}, size_t{9000001}, size_t{1} << 28}) {
      const Bytes bytes = test::values_of(dtype, count, [&](size_t i) {
        return test::bits_of(dtype, i == 0 ? outlier : i == nan_at ? NAN : value);
      });
      expect_agreement(gpu, bytes, c_order(count), dtype, "an outlier and a NaN");
    }
  };
  try_with(DType::kF32, 1909028224, 0.54027354717254639, 1155);
  try_with(DType::kF32, 238610672, 0.15581487119197845, 1155);
  try_with(DType::kF64, 1806023117348466, 0.87500789245557498, 577);
  try_with(DType::kF64, 1.1e20, 0.3, 1);
}

TEST(KernelStats, keep_the_spread_of_rows_that_begin_with_nan) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  const auto try_with = [&](DType dtype, size_t rows, size_t columns, size_t nan_columns, double mean,
                            double deviation) {
    const size_t count = rows * columns;
    const Bytes bytes = test::values_of(dtype, count, [&](size_t i) {
      return test::bits_of(dtype, i % columns < nan_columns ? NAN : mean + deviation * test::about_normal(9, i));
    });
    expect_agreement(gpu, bytes, c_order(count), dtype, "rows that begin with NaN");
  };
  for (const size_t rows : {64, 4096, 65536}) {
    try_with(DType::kF64, rows, 64, 2, 1e6, 1e-3);
    try_with(DType::kF64, rows, 64, 63, 1e9, 1e-3);
    try_with(DType::kF64, rows, 64, 2, 0x1p550, 0x1p500);
    try_with(DType::kF32, rows, 128, 4, 10000, 0.01);
  }
  try_with(DType::kF64, 2048, 4096, 64, 1.7e9, 1e-3);
  try_with(DType::kF64, 2048, 4096, 4090, 1.7e9, 1e-3);
}

// The squares of the equal ones are what rounding must not take anything off.
TEST(KernelStats, keep_the_spread_of_values_that_are_nearly_all_the_same) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  const auto try_with = [&](DType dtype, uint64_t equal, uint64_t odd) {
    for (const size_t count : {size_t{1} << 15, size_t{1} << 20, size_t{1} << 22, size_t{1} << 25, size_t{1} << 28})
      for (const size_t every : {count, count / 10 + 1, count / 1000 + 1})
        for (const Layout& layout : {c_order(count), layouts_of(count)[0]}) {
          if (count > size_t{1} << 25 && (every != count || layout.name != "C order")) continue;
          const Bytes bytes =
              test::values_of(dtype, layout.stored, [&](size_t i) { return i % every == 7 ? odd : equal; });
          expect_agreement(gpu, bytes, layout, dtype, "all but every " + std::to_string(every));
        }
  };
  const auto try_numbers = [&](DType dtype, double equal, double odd) {
    try_with(dtype, test::bits_of(dtype, equal), test::bits_of(dtype, odd));
  };
  try_numbers(DType::kBF16, 1, 1e-4);
  try_numbers(DType::kBF16, 1, 1e-10);
  try_numbers(DType::kF16, -1e4, 3.3);
  try_numbers(DType::kF16, -65504, 1.37);
  try_numbers(DType::kU16, 65535, 65534);
  try_with(DType::kF8E4M3FN, 0x7E, 0x07);  // 448, and a small one
  try_with(DType::kF8E5M2, 0x7B, 0x2D);    // 57344
  try_with(DType::kF8E8M0FNU, 127, 93);    // 1 and 2^-34
  try_with(DType::kF8E8M0FNU, 127, 110);   // 1 and 2^-17
}

TEST(KernelStats, take_values_whose_sums_are_beyond_double) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  for (const test::KernelCase& each : test::huge_cases())
    for (size_t count : {1, 2, 3, 511, 1024, 2048, 300000, 600003, 5000000, 9000001})
      expect_agreement(gpu, each.make(DType::kF64, count), c_order(count), DType::kF64, each.name);
}

TEST(KernelStats, take_huge_values_of_every_layout) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  for (const test::KernelCase& each : test::huge_cases())
    for (size_t count : {7, 513, 200003})
      for (const Layout& layout : layouts_of(count))
        expect_agreement(gpu, each.make(DType::kF64, layout.stored), layout, DType::kF64, each.name);
}

TEST(KernelStats, keep_the_spread_behind_values_that_are_not_finite) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  for (DType dtype : {DType::kF32, DType::kF64})
    for (size_t count : {size_t{1000}, size_t{1} << 18, size_t{1} << 21, size_t{9000000}})
      for (const Layout& layout : {c_order(count), layouts_of(count)[0]}) {
        const double deviation = dtype == DType::kF32 ? 0.5 : 0x1p-12;
        const Bytes bytes = test::values_of(dtype, layout.stored, [&](size_t i) {
          const double value = i < 5 || i % 1000 == 7 ? NAN
                               : i % 1000 == 8        ? -INFINITY
                                                      : 1e6 + deviation * test::about_normal(9, i);
          return test::bits_of(dtype, value);
        });
        expect_agreement(gpu, bytes, layout, dtype, "behind NaN");
      }
}

TEST(KernelStats, take_one_value_near_the_largest_double) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  for (size_t count : {size_t{126}, size_t{20000}, size_t{1} << 20, size_t{5000000}})
    for (size_t place : {size_t{0}, size_t{8}, size_t{9}, size_t{101}})
      for (double sign : {1, -1}) {
        const Bytes bytes = test::values_of(DType::kF64, count, [&](size_t i) {
          return test::bits_of(DType::kF64, i == place ? sign * 1.7e308 : 1e300);
        });
        expect_agreement(gpu, bytes, c_order(count), DType::kF64, "one at " + std::to_string(place));
      }
}

TEST(KernelStats, keep_the_spread_of_values_far_from_zero) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  const auto try_with = [&](DType dtype, double mean, double deviation) {
    for (size_t count : {1000, 300000, 5000000})
      expect_agreement(
          gpu,
          test::values_of(dtype, count,
                          [&](size_t i) { return test::bits_of(dtype, mean + deviation * test::about_normal(9, i)); }),
          c_order(count), dtype, "far from zero");
  };
  try_with(DType::kF64, 1e7, 1);
  try_with(DType::kF32, 1e4, 0.1);
  try_with(DType::kF64, 1e14, 1);
  try_with(DType::kI64, -3e9, 1000);
  try_with(DType::kI64, 4e18, 100000);
  try_with(DType::kI32, 2e9, 50);
  try_with(DType::kU32, 4e9, 50);
}

TEST(KernelStats, take_constants_whose_squares_are_beyond_double) {
  TTAP_NEEDS_GPU();
  Gpu gpu;
  for (size_t count : {1000, 300000, 5000000})
    expect_agreement(gpu, test::values_of(DType::kF64, count, [](size_t) { return test::bits_of(DType::kF64, 1e200); }),
                     c_order(count), DType::kF64, "constant");
}

}  // namespace
}  // namespace ttap::cuda
