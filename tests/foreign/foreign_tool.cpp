#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "sample_tensors.h"
#include "store/foreign/npy.h"
#include "store/foreign/pt.h"
#include "store/foreign/safetensors.h"

// foreign_tool list IN          the tensors of a file or folder as JSON: key, dtype, true_dtype, shape, hex
// of the bytes foreign_tool convert IN OUT   between .npy folders, .safetensors and .pt, chosen by name
// foreign_tool samples OUT      writes every dtype in every layout
namespace {

using namespace ttap;
namespace fs = std::filesystem;

Result<ForeignTensors> read(const fs::path& path) {
  if (path.extension() == ".pt") return read_pt(path);
  if (path.extension() == ".safetensors") return read_safetensors(path);
  return path.extension() == ".npy" ? read_npy(path) : read_npy_folder(path);
}

Status write(const fs::path& path, std::span<const NamedTensor> tensors) {
  if (path.extension() == ".pt") return write_pt(path, tensors);
  if (path.extension() == ".safetensors") return write_safetensors(path, tensors);
  if (path.extension() == ".npy") return write_npy(path, tensors.front().view);
  return write_npy_folder(path, tensors);
}

nlohmann::json listing(const ForeignTensors& found) {
  nlohmann::json tensors = nlohmann::json::array();
  for (const ForeignTensor& tensor : found.tensors) {
    std::string hex;
    for (std::byte b : test::logical_bytes(tensor.view())) hex += fmt::format("{:02x}", static_cast<unsigned>(b));
    tensors.push_back({{"key", to_string(tensor.key)},
                       {"name", tensor.key.name},
                       {"path", tensor.key.path},
                       {"dtype", dtype_name(tensor.dtype)},
                       {"true_dtype", tensor.true_dtype ? dtype_name(*tensor.true_dtype) : ""},
                       {"shape", tensor.shape},
                       {"hex", hex}});
  }
  return {{"tensors", tensors}, {"notes", found.notes}};
}

int fail(const Error& error) {
  // Told as JSON, so that a test can ask for the code.
  fmt::print("{}\n", nlohmann::json({{"error", to_string(error.code)}, {"message", error.describe()}}).dump());
  return 1;
}

int run(std::span<char*> args) {
  const std::string verb = args.size() > 1 ? args[1] : "";
  if (verb == "list" && args.size() == 3) {
    const auto found = read(args[2]);
    if (!found.ok()) return fail(found.error());
    fmt::print("{}\n", listing(*found).dump());
    return 0;
  }
  if (verb == "convert" && args.size() == 4) {
    const auto found = read(args[2]);
    if (!found.ok()) return fail(found.error());
    std::vector<NamedTensor> tensors;
    for (const ForeignTensor& tensor : found->tensors) tensors.push_back({to_string(tensor.key), tensor.view()});
    const auto status = write(args[3], tensors);
    return status.ok() ? 0 : fail(status.error());
  }
  if (verb == "samples" && args.size() == 3) {
    const auto samples = test::sample_tensors();
    std::vector<NamedTensor> tensors;
    for (const auto& sample : samples) tensors.push_back({sample.name, sample.view()});
    const auto status = write(args[2], tensors);
    return status.ok() ? 0 : fail(status.error());
  }
  fmt::print(stderr, "foreign_tool list IN | convert IN OUT | samples OUT\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) { return run(std::span(argv, static_cast<size_t>(argc))); }
