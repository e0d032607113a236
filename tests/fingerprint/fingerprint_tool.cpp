// fingerprint_tool DTYPE FILE [PATH [THREADS]]: the fingerprint of a file of raw elements, as one line of JSON. What
// the Python tests compare with NumPy.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "ttap/fingerprint.h"

namespace {

void print(const char* name, double value) {
  if (std::isnan(value))
    std::printf(", \"%s\": NaN", name);
  else if (std::isinf(value))
    std::printf(", \"%s\": %sInfinity", name, value < 0 ? "-" : "");
  else
    std::printf(", \"%s\": %.17g", name, value);
}

void print(const char* name, uint64_t value) {
  std::printf(", \"%s\": %llu", name, static_cast<unsigned long long>(value));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: fingerprint_tool DTYPE FILE [best|scalar|avx2|avx512 [THREADS]]\n");
    return 2;
  }
  const auto dtype = ttap::dtype_from_name(argv[1]);
  std::ifstream file(argv[2], std::ios::binary);
  if (!dtype || !file) {
    std::fprintf(stderr, "no such dtype or file\n");
    return 2;
  }
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ttap::FingerprintOptions options;
  const std::string path = argc > 3 ? argv[3] : "best";
  if (path == "scalar") options.path = ttap::SimdPath::kScalar;
  if (path == "avx2") options.path = ttap::SimdPath::kAvx2;
  if (path == "avx512") options.path = ttap::SimdPath::kAvx512;
  if (argc > 4) options.threads = static_cast<unsigned>(std::strtoul(argv[4], nullptr, 10));

  const int64_t shape[] = {static_cast<int64_t>(bytes.size() / ttap::size_of(*dtype))};
  const ttap::Fingerprint found = ttap::fingerprint({bytes.data(), *dtype, shape}, options);
  const ttap::Stats& stats = found.stats;
  std::printf("{\"path\": \"%s\", \"hash\": \"%s\"", std::string(ttap::simd_path_name(options.path)).c_str(),
              to_string(found.hash).c_str());
  print("count", stats.count);
  print("nan", stats.nan);
  print("pos_inf", stats.pos_inf);
  print("neg_inf", stats.neg_inf);
  print("zeros", stats.zeros);
  print("subnormals", stats.subnormals);
  print("min", stats.min);
  print("max", stats.max);
  print("max_abs", stats.max_abs);
  print("min_abs_nonzero", stats.min_abs_nonzero);
  print("mean", stats.mean);
  print("std", stats.std);
  print("l1", stats.l1);
  print("l2", stats.l2);
  if (found.has_sketch) {
    std::printf(", \"sketch\": [");
    for (size_t i = 0; i < found.sketch.size(); ++i) std::printf("%s%.17g", i == 0 ? "" : ", ", found.sketch[i]);
    std::printf("]");
  }
  std::printf("}\n");
  return 0;
}
