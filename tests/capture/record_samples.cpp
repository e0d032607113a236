// Records every dtype in every layout into the directory given, for readers in other languages; prints, one line each,
// the key and the logical bytes that they must find.
#include <cstdio>

#include "sample_tensors.h"
#include "ttap/recorder.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto recorder = ttap::Recorder::create({.directory = argv[1], .rank = 0, .metadata_json = R"({"model":"samples"})"});
  if (!recorder.ok()) {
    std::fprintf(stderr, "%s\n", recorder.error().describe().c_str());
    return 2;
  }
  (*recorder)->begin_pass();
  for (const auto& sample : ttap::test::sample_tensors()) {
    (*recorder)->capture(sample.name, sample.view(), {.role = "in", .path = "/0/x"});
    std::printf("%s ", sample.name.c_str());
    for (std::byte byte : ttap::test::logical_bytes(sample.view())) std::printf("%02x", static_cast<unsigned>(byte));
    std::printf("\n");
  }
  return (*recorder)->close().ok() ? 0 : 1;
}
