#include <gtest/gtest.h>

#include "gpu_recording.h"
#include "ttap/capi.h"

namespace ttap::cuda {
namespace {

TEST(CApi, TakesTensorsOnAGpu) {
  const ScratchDirectory scratch;
  const TestStream stream;
  const TestTensor tensor(5000);
  ttap_options options;
  ttap_options_init(&options);
  const std::string directory = scratch.path().string();
  options.directory = directory.c_str();
  ttap_recorder* recorder = nullptr;
  ASSERT_EQ(ttap_recorder_create(&options, &recorder), 0) << ttap_last_error();
  tensor.fill(7, stream);
  const TensorView view = tensor.view();
  const ttap_tensor given{view.data, TTAP_U8, 1, view.shape.data(), nullptr};
  EXPECT_EQ(ttap_capture_gpu(recorder, "x", &given, nullptr, nullptr, 0, stream), 0) << ttap_last_error();
  tensor.fill(0xEE, stream);
  EXPECT_NE(ttap_capture_gpu(recorder, "y", &given, nullptr, nullptr, host::kDevices, stream), 0);
  ASSERT_EQ(ttap_recorder_close(recorder), 0) << ttap_last_error();
  const auto run = Run::open(scratch.path());
  ASSERT_TRUE(run.ok());
  const auto pass = Pass::open(run->ranks[0].passes[0].path);
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(bytes_of(*pass, {.name = "x"}), std::vector(5000, std::byte{7}));
  EXPECT_EQ(pass->tensor(0).device, "cuda:0");
}

}  // namespace
}  // namespace ttap::cuda
