// What the fuzzers do, without a fuzzer: each is given its seeds (make_seeds), whole, cut short, and with bytes
// changed. So they compile and hold wherever the tests are built.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#define TTAP_EACH_FUZZER(use) \
  use(npy) use(npy_index) use(pass) use(pt) use(quant) use(rules) use(safetensors) use(segment)
#define TTAP_DECLARE(name) extern "C" int fuzz_##name(const uint8_t* data, size_t size);
TTAP_EACH_FUZZER(TTAP_DECLARE)

namespace {

constexpr int kCuts = 20, kChanges = 20;

struct Fuzzer {
  const char* name;
  int (*run)(const uint8_t* data, size_t size);
};
#define TTAP_ENTRY(name) {#name, fuzz_##name},
constexpr Fuzzer kFuzzers[] = {TTAP_EACH_FUZZER(TTAP_ENTRY)};

std::vector<uint8_t> bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void run(const Fuzzer& fuzzer, const std::vector<uint8_t>& seed, std::mt19937& random) {
  fuzzer.run(seed.data(), seed.size());
  const auto below = [&](size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(random); };
  for (int i = 0; i < kCuts && !seed.empty(); ++i) fuzzer.run(seed.data(), below(seed.size()));
  for (int i = 0; i < kChanges && !seed.empty(); ++i) {
    std::vector<uint8_t> changed = seed;
    changed[below(changed.size())] = static_cast<uint8_t>(below(256));
    fuzzer.run(changed.data(), changed.size());
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: run_seeds DIRECTORY, as make_seeds fills it\n");
    return 2;
  }
  std::mt19937 random(1);
  for (const Fuzzer& fuzzer : kFuzzers) {
    size_t seeds = 0;
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(arguments[1]) / fuzzer.name)) {
      run(fuzzer, bytes_of(entry.path()), random);
      ++seeds;
    }
    std::printf("%s: %zu seeds\n", fuzzer.name, seeds);
    if (seeds == 0) return 1;
  }
}
