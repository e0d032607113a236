#include "capture/place/coverage.h"

#include <fmt/format.h>

#include "core/json.h"
#include "store/files/mapped_file.h"
#include "store/files/posix_file.h"
#include "store/segment/segment_writer.h"

namespace ttap {

Status check_json_object(std::string_view text, std::string_view what) {
  if (parse_json(text).is_object()) return {};
  return Error{ErrorCode::kInvalidArgument, fmt::format("{} is not a JSON object", what)};
}

Status write_side_file(const std::filesystem::path& path, std::string_view text) {
  TTAP_ASSIGN(OutputFile file, OutputFile::create(path));
  TTAP_TRY(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

Status write_coverage(const std::filesystem::path& rank_directory, const Report& report, std::string_view source_json) {
  const auto drops_json = [](const DropCounts& drops) {
    return parse_json(to_json(EndRecord{.drops = drops}))["drops"];
  };
  // Those of recorders that went on in the same directory count too: their passes are looked for there as well.
  uint64_t lost_passes = report.lost_passes;
  DropCounts lost_drops = report.lost_pass_drops;
  if (const Json before = parse_json(side_file_text(rank_directory / "coverage.json"));
      before.is_object() && before.contains("lost_passes") && before["lost_passes"].is_object()) {
    const Json& lost = before["lost_passes"];
    if (lost.contains("passes") && lost["passes"].is_number_unsigned()) lost_passes += lost["passes"].get<uint64_t>();
    if (lost.contains("drops")) lost_drops += end_record_from_json(json_text(Json{{"drops", lost["drops"]}})).drops;
  }
  Json patterns = Json::array();
  for (const auto& [pattern, names] : report.patterns) patterns.push_back({{"pattern", pattern}, {"names", names}});
  Json json = {{"passes", report.passes},
               {"tensors", report.tensors},
               {"tensor_bytes", report.tensor_bytes},
               {"deduplicated", report.deduplicated},
               {"file_bytes", report.file_bytes},
               {"names", {{"seen", report.names_seen}, {"recorded", report.names_recorded}}},
               {"patterns", patterns},
               {"drops", drops_json(report.drops)},
               {"first_error", report.first_error},
               {"staging_peak_bytes", report.staging_peak_bytes}};
  if (lost_passes > 0) json["lost_passes"] = {{"passes", lost_passes}, {"drops", drops_json(lost_drops)}};
  if (report.graphs.graphs + report.graphs.failed > 0)
    json["cuda_graphs"] = {{"graphs", report.graphs.graphs},
                           {"replays", report.graphs.replays},
                           {"lost", report.graphs.lost},
                           {"not_copied", report.graphs.not_copied},
                           {"failed", report.graphs.failed}};
  if (!source_json.empty()) json["source"] = parse_json(source_json);
  return write_side_file(rank_directory / "coverage.json", json_text(json, 2) + "\n");
}

std::string Report::describe() const {
  std::string text = fmt::format("{} tensors ({} bytes) of {} names in {} passes; {} bytes written, {} deduplicated",
                                 tensors, tensor_bytes, names_recorded, passes, file_bytes, deduplicated);
  const auto line = [&](uint64_t count, std::string_view what) {
    if (count > 0) text += fmt::format("\nnot recorded: {} {}", count, what);
  };
  line(lost_passes, "passes, of which no file could be made");
  line(drops.staging_full, "dropped, the staging memory was full");
  line(drops.quota, "without bytes or lost, the quota was reached");
  line(drops.disk_full, "without bytes or lost, the disk was full");
  line(drops.io_error, "lost to write errors");
  line(drops.unsupported, "that could not be read, or without a proper key");
  line(drops.late, "that came after their pass had ended");
  line(drops.events, "events");
  line(graphs.failed, "CUDA graphs that could not be tapped");
  line(graphs.lost, "replays of CUDA graphs, overwritten before they were read");
  line(graphs.not_copied, "tensors of CUDA graphs as bytes, only their fingerprints: device_staging_bytes was reached");
  for (const auto& [pattern, names] : patterns)
    if (names == 0) text += fmt::format("\nthe pattern '{}' matched none of the {} names seen", pattern, names_seen);
  if (!first_error.empty()) text += fmt::format("\nfirst error: {}", first_error);
  return text;
}

}  // namespace ttap
