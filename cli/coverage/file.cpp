#include "cli/coverage/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <set>

#include "report/text/json_reader.h"
#include "store/files/mapped_file.h"
#include "store/files/posix_file.h"

namespace ttap::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLargestCoverageFile = size_t{256} << 20;

// What reading meets on its way through the document.
struct Findings {
  std::optional<Error> error = {};  // the first
  std::vector<std::pair<std::string, std::string>> others = {};

  void wrong(const std::string& place, std::string_view expected) {
    if (!error) error = Error{ErrorCode::kCorrupt, fmt::format("'{}' is not {}", place, expected)};
  }
};

// An object whose members are taken one by one; what nobody took ends up in `others`. null is as good as missing.
class Members {
 public:
  Members(const Json& json, std::string place, Findings& findings)
      : json_(json), place_(std::move(place)), findings_(findings) {
    if (!json_.is_object()) findings_.wrong(place_.empty() ? "coverage.json" : place_, "an object");
  }
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;
  ~Members() {
    if (!json_.is_object()) return;
    for (const auto& [name, value] : json_.items())
      if (!taken_.contains(name)) findings_.others.emplace_back(path(name), json_text(value));
  }

  void take(const std::string& name, uint64_t& to) {
    const Json* value = find(name);
    if (value == nullptr) return;
    if (!value->is_number_unsigned()) return findings_.wrong(path(name), "a count");
    to = value->get<uint64_t>();
  }
  void take(const std::string& name, std::string& to) {
    const Json* value = find(name);
    if (value == nullptr) return;
    if (!value->is_string()) return findings_.wrong(path(name), "text");
    to = value->get<std::string>();
  }
  void take(const std::string& name, std::vector<std::string>& to) {
    for_each(name, [&](const Json& item, const std::string& place) {
      if (!item.is_string()) return findings_.wrong(place, "text");
      to.push_back(item.get<std::string>());
    });
  }
  // read(Members&) for the object of that name, if there is one.
  template <class Read>
  void object(const std::string& name, Read read) {
    const Json* value = find(name);
    if (value == nullptr) return;
    Members members(*value, path(name), findings_);
    read(members);
  }
  // read(Members&, Item&) for each object of a list.
  template <class Item, class Read>
  void list(const std::string& name, std::vector<Item>& to, Read read) {
    for_each(name, [&](const Json& item, const std::string& place) {
      Members members(item, place, findings_);
      read(members, to.emplace_back());
    });
  }

 private:
  std::string path(const std::string& name) const { return place_.empty() ? name : fmt::format("{}.{}", place_, name); }

  const Json* find(const std::string& name) {
    if (!json_.is_object()) return nullptr;
    const auto found = json_.find(name);
    if (found == json_.end()) return nullptr;
    taken_.insert(name);
    return found->is_null() ? nullptr : &*found;
  }

  template <class Use>
  void for_each(const std::string& name, Use use) {
    const Json* value = find(name);
    if (value == nullptr) return;
    if (!value->is_array()) return findings_.wrong(path(name), "a list");
    for (size_t i = 0; i < value->size(); ++i) use((*value)[i], fmt::format("{}[{}]", path(name), i));
  }

  const Json& json_;
  std::string place_;
  Findings& findings_;
  std::set<std::string> taken_;
};

SourceCoverage read_source(Members& source) {
  SourceCoverage to;
  source.list("roots", to.roots, [](Members& item, SourceCoverage::Root& root) {
    item.take("name", root.name);
    item.take("modules", root.modules);
    item.take("selected", root.selected);
    item.take("passes", root.passes);
  });
  source.list("never_called", to.never_called, [](Members& item, SourceCoverage::NeverCalled& module) {
    item.take("name", module.name);
    item.take("type", module.type);
    item.take("why", module.why);
  });
  source.list("without_tensors", to.without_tensors, [](Members& item, SourceCoverage::WithoutTensors& module) {
    item.take("name", module.name);
    item.take("calls", module.calls);
  });
  source.list("unsupported", to.unsupported, [](Members& item, SourceCoverage::Unsupported& kind) {
    item.take("why", kind.why);
    item.take("count", kind.count);
    item.take("first", kind.first);
  });
  source.take("outside_steps", to.outside_steps);
  source.take("late_gradients", to.late_gradients);
  source.take("notes", to.notes);
  return to;
}

void read_drops(Members& drops, DropCounts& to) {
  drops.take("staging_full", to.staging_full);
  drops.take("quota", to.quota);
  drops.take("disk_full", to.disk_full);
  drops.take("io_error", to.io_error);
  drops.take("unsupported", to.unsupported);
  drops.take("late", to.late);
  drops.take("events", to.events);
}

Coverage read_document(const Json& json, Findings& findings) {
  Coverage to;
  Members document(json, "", findings);
  document.take("passes", to.passes);
  document.take("tensors", to.tensors);
  document.take("tensor_bytes", to.tensor_bytes);
  document.take("deduplicated", to.deduplicated);
  document.take("file_bytes", to.file_bytes);
  document.object("names", [&](Members& names) {
    names.take("seen", to.names_seen);
    names.take("recorded", to.names_recorded);
  });
  document.list("patterns", to.patterns, [](Members& item, Coverage::PatternMatches& pattern) {
    item.take("pattern", pattern.pattern);
    item.take("names", pattern.names);
  });
  document.object("drops", [&](Members& drops) { read_drops(drops, to.drops); });
  document.object("lost_passes", [&](Members& lost) {
    lost.take("passes", to.lost_passes);
    DropCounts theirs;  // among those of all
    lost.object("drops", [&](Members& drops) { read_drops(drops, theirs); });
  });
  document.take("first_error", to.first_error);
  document.take("staging_peak_bytes", to.staging_peak_bytes);
  document.object("source", [&](Members& source) { to.source = read_source(source); });
  return to;
}

}  // namespace

Result<std::optional<Coverage>> read_coverage(const std::filesystem::path& rank_directory) {
  const std::filesystem::path path = rank_directory / "coverage.json";
  const auto located = [&](Error error) {
    error.path = path.string();
    return error;
  };
  const auto file = MappedFile::open(path);
  if (!file.ok() && file.error().code == ErrorCode::kNotFound) return std::optional<Coverage>{};
  if (!file.ok()) return located(file.error());
  const auto bytes = (*file)->bytes();
  if (bytes.size() > kLargestCoverageFile) return located({ErrorCode::kTooLarge, "larger than any coverage.json"});
  const auto json = read_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!json.ok()) return located(json.error());
  Findings findings;
  Coverage coverage = read_document(*json, findings);
  if (findings.error) return located(*findings.error);
  coverage.others = std::move(findings.others);
  coverage.json = json_text(*json);
  return std::optional(std::move(coverage));
}

std::string why_no_coverage(const Rank& rank) {
  std::error_code ignored;
  if (!std::filesystem::exists(rank.path / "rank.json", ignored))
    return "TensorTap did not record it here, or it is an export";
  // A recorder holds a lock on its directory for as long as it lives.
  const auto directory = FileDescriptor::open(rank.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool asked = directory.ok() && ::flock(directory->get(), LOCK_SH | LOCK_NB) == 0;
  if (asked) return "its process was killed, or ended without closing the recorder";
  if (directory.ok() && errno == EWOULDBLOCK) return "its process is still recording";
  return "its process was killed, or is still recording";
}

}  // namespace ttap::cli
