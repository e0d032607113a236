#include "analyze/check/losses.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/json.h"
#include "store/files/mapped_file.h"
#include "store/segment/segment_writer.h"

namespace ttap {
namespace {

constexpr std::pair<uint64_t DropCounts::*, std::string_view> kCauses[] = {{&DropCounts::quota, "quota"},
                                                                           {&DropCounts::staging_full, "staging full"},
                                                                           {&DropCounts::disk_full, "disk full"},
                                                                           {&DropCounts::io_error, "write errors"}};

// Only what was lost to a bound or an error.
DropCounts lost_of(const DropCounts& drops) {
  DropCounts lost;
  for (const auto& [cause, words] : kCauses) lost.*cause = drops.*cause;
  return lost;
}

std::string lost_count_text(uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

}  // namespace

Losses& Losses::operator+=(const Losses& other) {
  passes += other.passes;
  tensors += other.tensors;
  causes += other.causes;
  return *this;
}

std::string Losses::text() const {
  if (!any()) return "";
  std::string why;
  for (const auto& [cause, words] : kCauses)
    if (causes.*cause > 0) why += fmt::format("{}{}", why.empty() ? "" : ", ", words);
  const std::string of_passes = passes == 0 ? "" : lost_count_text(passes, "whole pass", "whole passes");
  const std::string of_tensors = tensors == 0 ? "" : lost_count_text(tensors, "tensor", "tensors");
  return fmt::format("{}{}{} {} lost{}", of_passes, passes > 0 && tensors > 0 ? " and " : "", of_tensors,
                     passes + tensors == 1 ? "was" : "were", why.empty() ? "" : fmt::format(" ({})", why));
}

Losses losses_of(const Pass& pass) {
  Losses losses{.causes = lost_of(pass.info().drops)};
  const uint64_t counted_drops = losses.causes.total();
  if (counted_drops == 0) return losses;
  // A tensor whose bytes alone were dropped is counted as well, and is there.
  uint64_t without_bytes = 0;
  for (size_t i = 0; i < pass.tensor_count(); ++i) {
    const TensorRecord tensor = pass.tensor(i);
    without_bytes += tensor.level == Level::kFull && !tensor.has_bytes && !pass.missing_from(i);
  }
  losses.tensors = counted_drops - std::min(counted_drops, without_bytes);
  return losses;
}

Losses lost_passes_of(const Rank& rank) {
  Losses losses;
  const Json coverage = parse_json(side_file_text(rank.path / "coverage.json"));
  if (!coverage.is_object() || !coverage.contains("lost_passes")) return losses;
  const Json& lost = coverage["lost_passes"];
  if (!lost.is_object() || !lost.contains("passes") || !lost["passes"].is_number_unsigned()) return losses;
  losses.passes = lost["passes"].get<uint64_t>();
  if (lost.contains("drops"))
    losses.causes = lost_of(end_record_from_json(json_text(Json{{"drops", lost["drops"]}})).drops);
  losses.tensors = losses.causes.total();
  return losses;
}

}  // namespace ttap
