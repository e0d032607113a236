
#include "core/json.h"
#include "store/segment/segment_writer.h"

namespace ttap {

std::string to_json(const EndRecord& end) {
  const DropCounts& drops = end.drops;
  Json json = {{"ending", to_string(end.ending)},
               {"drops",
                {{"staging_full", drops.staging_full},
                 {"quota", drops.quota},
                 {"disk_full", drops.disk_full},
                 {"io_error", drops.io_error},
                 {"unsupported", drops.unsupported},
                 {"late", drops.late},
                 {"events", drops.events}}}};
  if (end.recovered) json["recovered"] = true;
  return json_text(json);
}

EndRecord end_record_from_json(std::string_view text) {
  EndRecord end{.ending = Ending::kIncomplete};
  const auto json = parse_sorted_json(text);
  if (!json.is_object()) return end;
  const auto ending = json.find("ending");
  if (ending != json.end() && ending->is_string())
    for (Ending candidate : {Ending::kComplete, Ending::kAborted, Ending::kIncomplete})
      if (to_string(candidate) == ending->get_ref<const std::string&>()) end.ending = candidate;
  const auto drops = json.find("drops");
  if (drops != json.end() && drops->is_object()) {
    const auto count = [&](const char* name) -> uint64_t {
      const auto found = drops->find(name);
      return found != drops->end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
    };
    end.drops = {.staging_full = count("staging_full"),
                 .quota = count("quota"),
                 .disk_full = count("disk_full"),
                 .io_error = count("io_error"),
                 .unsupported = count("unsupported"),
                 .late = count("late"),
                 .events = count("events")};
  }
  end.recovered = json.contains("recovered");
  return end;
}

}  // namespace ttap
