// Two versions of one small program, recorded and compared: which operator went wrong first?
//   compare_demo OUTPUT_DIRECTORY
#include <ttap/diff.h>
#include <ttap/recorder.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace {

// Three operators, one after the other; `epsilon` is where the versions differ.
bool record_version(const std::string& directory, float epsilon) {
  auto recorder = ttap::Recorder::create({.directory = directory});
  if (!recorder) {
    std::fprintf(stderr, "compare_demo: %s\n", recorder.error().describe().c_str());
    return false;
  }
  const std::vector<int64_t> shape = {4, 16};
  std::vector<float> x(64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i)) * 0.01f;
  const auto run = [&](const char* name, auto&& op) {
    const ttap::Event event = (*recorder)->begin_event({.name = name});
    const ttap::TensorView view{x.data(), ttap::DType::kF32, shape, {}};
    (*recorder)->capture(event, view, {.role = "in"});
    op();
    (*recorder)->capture(event, view, {.role = "out"});
    (*recorder)->end_event(event, {});
  };
  run("embed", [&] {
    for (float& value : x) value *= 2;
  });
  run("norm", [&] {
    for (size_t row = 0; row < 4; ++row) {
      float squares = 0;
      for (size_t i = 0; i < 16; ++i) squares += x[row * 16 + i] * x[row * 16 + i];
      for (size_t i = 0; i < 16; ++i) x[row * 16 + i] /= std::sqrt(squares / 16 + epsilon);
    }
  });
  run("head", [&] {
    for (float& value : x) value = value * 3 + 1;
  });
  return (*recorder)->close().ok();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: compare_demo OUTPUT_DIRECTORY\n");
    return 2;
  }
  const std::string good = std::string(argv[1]) + "/good", bad = std::string(argv[1]) + "/bad";
  if (!record_version(good, 1e-6f) || !record_version(bad, 1e-5f)) return 2;
  const auto diff = ttap::Diff::compare(good, bad);
  if (!diff) {
    std::fprintf(stderr, "compare_demo: %s\n", diff.error().describe().c_str());
    return 2;
  }
  std::printf("%s\n", diff->sentence().c_str());
  for (size_t i = 0; i < diff->tensor_count(); ++i) {
    const ttap::DiffedTensor tensor = diff->tensor(i);
    std::printf("%-10s %-18s %-10s %.3g\n", tensor.key_a.c_str(), std::string(to_string(tensor.verdict)).c_str(),
                std::string(to_string(tensor.cause)).c_str(), tensor.max_abs);
  }
  const auto first = diff->first();
  return first && diff->tensor(*first).key_a == "norm" ? 0 : 1;
}
