#include <cstdio>
#include <filesystem>
#include <random>

#include "foreign/formats.h"
#include "sample_folder.h"
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

namespace {

using namespace ttap;
namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  const auto bytes = test::bytes_of_file(file);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Two segments as fuzz_pass takes them.
std::string as_passes(const std::string& first, const std::string& second) {
  const auto length = static_cast<uint32_t>(first.size());
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + first + second;
}

// What is made by hand, or kept in the tests: golden segments, alone and as two passes of a rank; indexes; quantized
// tensors.
void write_other_seeds(const fs::path& root) {
  const fs::path golden = TTAP_GOLDEN;
  const std::string groups = text_of(golden / "groups-1.2.ttap"), calls = text_of(golden / "calls-1.1.ttap");
  const std::string first = text_of(golden / "stable-1.2/pass00000.ttap");
  const std::string second = text_of(golden / "stable-1.2/pass00001.ttap");
  test::write_text(root / "segment/groups-1.2.ttap", groups);
  test::write_text(root / "segment/calls-1.1.ttap", calls);
  test::write_text(root / "segment/samples-1.0.ttap", text_of(golden / "samples-1.0.ttap"));
  test::write_text(root / "segment/stable-1.2.ttap", second);
  test::write_text(root / "pass/stable", as_passes(first, second));
  test::write_text(root / "pass/groups", as_passes(first, groups));
  test::write_text(root / "pass/calls", as_passes({}, calls));
  test::write_text(root / "npy_index/graph.json", fuzz::sample_graph_index());
  test::write_text(root / "npy_index/plain.json", fuzz::sample_plain_index());
  for (const std::string& name : quant_format_names())
    test::write_text(root / "quant" / (name + ".json"),
                     to_json(GroupDescription{.format = quant_format(name).value(), .parts = {"payload", "scale"}}));
  std::minstd_rand random;
  for (int i = 0; i < 64; ++i) {
    std::string bytes(200, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() >> 8);
    test::write_text(root / "quant" / std::to_string(i), bytes);
  }
}

}  // namespace

// make_seeds DIR: one small file per dtype and layout for each fuzzer, in DIR/npy, DIR/pt, DIR/safetensors,
// DIR/segment; and a few in the folders of the others.
int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "make_seeds DIR\n"), 2;
  const fs::path root = argv[1];
  for (const char* format : {"npy", "npy_index", "pass", "pt", "quant", "rules", "safetensors", "segment"})
    fs::create_directories(root / format);
  write_other_seeds(root);
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
    fs::rename((*recorder)->rank_directory() / "pass00000.ttap", root / "segment" / (sample.name + ".ttap"));
  }
  fs::remove_all(root / "run");
  return 0;
}
