// A small transformer block without any framework, recorded with TensorTap: every operator's output, two steps.
// In the second step a weight has gone bad, and a NaN travels through the rest of the model.
//   record_demo OUTPUT_DIRECTORY
#include <ttap/recorder.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace {

struct Matrix {
  std::vector<int64_t> shape;
  std::vector<float> values;

  Matrix(int64_t rows, int64_t columns) : shape{rows, columns}, values(static_cast<size_t>(rows * columns)) {}
  float& at(int64_t row, int64_t column) { return values[static_cast<size_t>(row * shape[1] + column)]; }
  float at(int64_t row, int64_t column) const { return values[static_cast<size_t>(row * shape[1] + column)]; }
  ttap::TensorView view() const { return {values.data(), ttap::DType::kF32, shape, {}}; }
};

Matrix random_matrix(int64_t rows, int64_t columns, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(rows)));
  Matrix matrix(rows, columns);
  for (float& value : matrix.values) value = normal(random);
  return matrix;
}

Matrix multiply(const Matrix& a, const Matrix& b) {
  Matrix product(a.shape[0], b.shape[1]);
  for (int64_t i = 0; i < a.shape[0]; ++i)
    for (int64_t k = 0; k < a.shape[1]; ++k)
      for (int64_t j = 0; j < b.shape[1]; ++j) product.at(i, j) += a.at(i, k) * b.at(k, j);
  return product;
}

void normalize_rows(Matrix& x) {
  for (int64_t i = 0; i < x.shape[0]; ++i) {
    float squares = 0;
    for (int64_t j = 0; j < x.shape[1]; ++j) squares += x.at(i, j) * x.at(i, j);
    const float scale = 1 / std::sqrt(squares / static_cast<float>(x.shape[1]) + 1e-6f);
    for (int64_t j = 0; j < x.shape[1]; ++j) x.at(i, j) *= scale;
  }
}

// The model: capture() after each operator is all that recording asks for.
struct Model {
  std::vector<Matrix> up, down;

  explicit Model(int layers) {
    for (int i = 0; i < layers; ++i) {
      up.push_back(random_matrix(64, 128, 2 * static_cast<uint32_t>(i)));
      down.push_back(random_matrix(128, 64, 2 * static_cast<uint32_t>(i) + 1));
    }
  }

  void forward(Matrix x, ttap::Recorder& recorder) const {
    recorder.capture("embed", x.view());
    for (size_t i = 0; i < up.size(); ++i) {
      const std::string layer = "layers." + std::to_string(i);
      normalize_rows(x);
      recorder.capture(layer + ".norm", x.view());
      Matrix hidden = multiply(x, up[i]);
      recorder.capture(layer + ".mlp.up", hidden.view());
      for (float& value : hidden.values) value = value > 0 ? value : 0;
      recorder.capture(layer + ".mlp.relu", hidden.view());
      const Matrix out = multiply(hidden, down[i]);
      recorder.capture(layer + ".mlp.down", out.view());
      for (size_t k = 0; k < x.values.size(); ++k) x.values[k] += out.values[k];
      recorder.capture(layer + ".residual", x.view());
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: record_demo OUTPUT_DIRECTORY\n");
    return 2;
  }
  // The environment may say otherwise: TTAP_LEVEL=fingerprint, TTAP_FILTER='\.mlp\.', …
  auto options = ttap::RecorderOptions::from_environment({.directory = argv[1]});
  if (!options) {
    std::fprintf(stderr, "record_demo: %s\n", options.error().describe().c_str());
    return 2;
  }
  auto recorder = ttap::Recorder::create(*options);
  if (!recorder) {
    std::fprintf(stderr, "record_demo: %s\n", recorder.error().describe().c_str());
    return 2;
  }

  Model model(4);
  const Matrix tokens = random_matrix(8, 64, 1000);
  {
    const ttap::PassScope pass(**recorder);  // one step of the program, one file
    model.forward(tokens, **recorder);
  }
  model.down[2].at(5, 7) = std::numeric_limits<float>::quiet_NaN();
  {
    const ttap::PassScope pass(**recorder);
    model.forward(tokens, **recorder);
  }

  const ttap::Status closed = (*recorder)->close();
  std::printf("%s\n", (*recorder)->report().describe().c_str());
  return closed ? 0 : 1;
}
