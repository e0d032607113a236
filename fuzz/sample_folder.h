#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "store/foreign/npy.h"
#include "store/graph/graph_index.h"
#include "ttap/group.h"

// The folder of .npy files whose index the fuzzer fuzz_npy_index makes anew each time, and indexes that fit it.
namespace ttap::fuzz {

inline const std::string kSampleFolder = "graph_1/0";

struct SampleFile {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;
};

// The third and fourth are the payload and the scale of a quantized tensor.
inline std::vector<SampleFile> sample_files() {
  return {{"x-x.OUTPUT.0", DType::kF32, {2, 2}, {0, 0, 0, 63, 0, 0, 128, 191, 0, 0, 128, 62, 0, 0, 192, 63}},
          {"add-aten.add.Tensor.OUTPUT.0", DType::kBF16, {2}, {128, 63, 0, 64}},
          {"fc-fc.OUTPUT.0", DType::kU8, {2, 2}, {0x38, 0xC0, 0x30, 0x44}},
          {"fc-fc.OUTPUT.1", DType::kF32, {}, {0, 0, 0, 63}}};
}

inline void write_sample_files(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  for (const SampleFile& file : sample_files())
    TTAP_CHECK(write_npy(folder / (file.name + ".npy"), {file.bytes.data(), file.dtype, file.shape, {}}).ok());
}

// Of an executed graph.
inline std::string sample_graph_index() {
  StoredPass pass;
  pass.info.metadata_json = R"({"rank": 0})";
  pass.events = {{.name = "graph_1", .kind = "graph", .notes = R"({"step": 0})", .returned = true},
                 {.name = "%add", .parent = 0, .arguments = "%0", .results = "%1", .forward = 0, .returned = true}};
  pass.events[1].uses = {{.path = "/0", .tensor = 1, .record = 0, .written = true}, {.role = "out", .record = 1}};
  const std::string roles[] = {"out", "out", "param", "param"};
  const std::string paths[] = {"", "", "/weight/payload", "/weight/scale"};
  const std::string names[] = {"%x", "%add", "fc", "fc"};
  const auto files = sample_files();
  GraphIndex index{.pass = &pass, .parts = {kSampleFolder}};
  for (size_t i = 0; i < files.size(); ++i) {
    const SampleFile& file = files[i];
    const std::string path = kSampleFolder + "/" + file.name + ".npy";
    pass.tensors.push_back({.name = names[i], .role = roles[i], .path = paths[i], .event = 1, .dtype = file.dtype});
    pass.tensors.back().shape = file.shape;
    pass.tensors.back().fingerprint = fingerprint({file.bytes.data(), file.dtype, file.shape, {}});
    pass.tensors.back().file = path;
    index.files.push_back({.file = file.name + ".npy", .node = names[i], .dtype = file.dtype});
  }
  const GroupDescription description{.format = quant_format("fp8_e4m3").value(), .parts = {"payload", "scale"}};
  pass.tensors.push_back({.name = "fc", .role = "param", .path = "/weight", .shape = {2, 2}});
  pass.tensors.back().group = to_json(description);
  return to_json(index).value();
}

// Of a pass.
inline std::string sample_plain_index() {
  return R"({"format": "ttap-npy", "version": 1, "tensors": [
    {"key": "x", "file": "x-x.OUTPUT.0.npy", "dtype": "f32"},
    {"key": "add@in/0", "file": "add-aten.add.Tensor.OUTPUT.0.npy", "dtype": "f32", "true_dtype": "bf16"}]})";
}

}  // namespace ttap::fuzz
