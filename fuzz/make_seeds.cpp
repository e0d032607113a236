#include <cstdio>
#include <filesystem>

#include "sample_tensors.h"
#include "store/foreign/npy.h"
#include "store/foreign/pt.h"
#include "store/foreign/safetensors.h"
#include "store/foreign/zip_archive.h"
#include "ttap/recorder.h"

// What fuzz_rules reads, each behind the byte that says what it is.
constexpr const char* kRules[] = {
    "0'^layers\\.(\\d+)': 'blocks.$1'\n",
    "0- a: b\n- c: d\n",
    "1'\\.q_proj$': concat -1\n'partial': sum\n'.*': replicated\n",
    "2{\"mlp\": {\"mesh_shape\": [2], \"coordinate\": [0], \"placements\": [\"Shard(0)\"], \"global_shape\": [4, 4]}}",
    "3cos>=0.999,max_abs<1e-3",
    "4mlp=1e-3,1e-5",
    "50-4:10-14,7",
};

// make_seeds DIR: one small file per dtype and layout for each fuzzer, in DIR/npy, DIR/pt, DIR/safetensors,
// DIR/segment; and DIR/rules.
int main(int argc, char** argv) {
  using namespace ttap;
  if (argc != 2) return std::fprintf(stderr, "make_seeds DIR\n"), 2;
  const std::filesystem::path root = argv[1];
  for (const char* format : {"npy", "pt", "rules", "safetensors", "segment"})
    std::filesystem::create_directories(root / format);
  for (size_t i = 0; i < std::size(kRules); ++i) {
    std::FILE* out = std::fopen((root / "rules" / std::to_string(i)).c_str(), "wb");
    if (out == nullptr || std::fputs(kRules[i], out) < 0 || std::fclose(out) != 0) return std::perror("make_seeds"), 1;
  }
  for (const auto& sample : test::sample_tensors()) {
    const NamedTensor tensors[] = {{"a", sample.view()}, {"b/0", sample.view()}};
    const auto pt = root / "pt" / (sample.name + ".pt");
    const Status results[] = {write_npy(root / "npy" / (sample.name + ".npy"), sample.view()), write_pt(pt, tensors),
                              write_safetensors(root / "safetensors" / (sample.name + ".safetensors"), tensors)};
    for (const Status& status : results)
      if (!status.ok()) return std::fprintf(stderr, "%s\n", status.error().describe().c_str()), 1;
    // The pickle alone, for the fuzzer's way around the archive.
    const auto file = MappedFile::open(pt);
    const auto archive = ZipArchive::open((*file)->bytes());
    const auto pickle = archive->find("archive/data.pkl")->data;
    std::FILE* out = std::fopen((root / "pt" / (sample.name + ".pkl")).c_str(), "wb");
    if (out == nullptr || std::fwrite(pickle.data(), 1, pickle.size(), out) != pickle.size() || std::fclose(out) != 0)
      return std::perror("make_seeds"), 1;

    auto recorder = Recorder::create({.directory = root / "run", .rank = 0});
    if (!recorder.ok()) return std::fprintf(stderr, "%s\n", recorder.error().describe().c_str()), 1;
    (*recorder)->capture("a", sample.view());
    (*recorder)->capture("b", sample.view(), {.role = "in", .path = "/0"});
    const Event op = (*recorder)->begin_event({.name = "c"});
    (*recorder)->capture(op, sample.view(), {.value = 1});
    (*recorder)->capture(op, sample.view(), {.path = "/0", .group = R"({"format": {}, "parts": ["payload"]})"});
    (*recorder)->capture(op, sample.view(), {.path = "/0/payload"});
    const Use uses[] = {{.path = "/0", .tensor = 1, .value = 1, .written = true}, {.role = "out", .value = 2}};
    (*recorder)->end_event(op, {.arguments = "%0", .results = "%1", .notes = "{}", .uses = uses});
    const Event backward = (*recorder)->begin_event({.name = "d"});
    (*recorder)->end_event(backward, {.forward = op});
    if (!(*recorder)->close().ok()) return 1;
    std::filesystem::rename((*recorder)->rank_directory() / "pass00000.ttap",
                            root / "segment" / (sample.name + ".ttap"));
  }
  std::filesystem::remove_all(root / "run");
  return 0;
}
