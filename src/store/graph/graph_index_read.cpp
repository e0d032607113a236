#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/element.h"
#include "core/json.h"
#include "core/utf8.h"
#include "store/files/mapped_file.h"
#include "store/foreign/npy.h"
#include "store/graph/graph_index.h"
#include "store/graph/graph_names.h"
#include "store/segment/segment_writer.h"

namespace ttap {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kGraphFormat = "ttap-graph-npy";
constexpr uint64_t kGraphVersion = 1;
constexpr int kDeepest = 64;

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// Reads the members that stand in front, up to the list of files.
class HeadReader : public nlohmann::json_sax<Json> {
 public:
  GraphIndexHead head;
  std::string format;
  uint64_t version = 0;
  bool has_pass = false;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t number) override {
    if (depth_ != 1) return true;
    if (key_ == "version") version = number;
    if (key_ == "step") head.step = number;
    if (key_ == "pass" && number <= UINT32_MAX) {
      head.pass = static_cast<uint32_t>(number);
      has_pass = true;
    }
    return true;
  }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t& text) override {
    if (depth_ != 1) return true;
    if (key_ == "format") format = text;
    if (key_ == "graph") head.graph = text;
    if (key_ == "part_of") head.part_of = text;
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return ++depth_ > 0; }
  bool end_object() override { return --depth_ > 0; }
  // In the order in which we write them, nothing that is wanted comes after the list of files.
  bool start_array(size_t) override {
    const bool known = !format.empty() && version != 0 && has_pass && key_ == "files";
    ++depth_;
    return !known;
  }
  bool end_array() override { return --depth_ > 0; }
  bool key(string_t& text) override {
    if (depth_ == 1) key_ = text;
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  int depth_ = 0;
  std::string key_;
};

// What one file says, read with one place to note what is wrong with it.
class IndexReader {
 public:
  IndexReader(const fs::path& folder, StoredPass& pass) : folder_(folder), pass_(pass) {}

  Status read(const Json& index) {
    if (!index.is_object() || string_at(index, "format") != kGraphFormat)
      return corrupt("not the index of a graph's folder");
    if (number_at(index, "version", 0) != kGraphVersion)
      return Error{ErrorCode::kVersion, fmt::format("not version {} of the index", kGraphVersion), place()};
    pass_.info.number = small_at(index, "pass", 0);
    pass_.info.started_unix_ns = number_at(index, "started_unix_ns", 0);
    const EndRecord end = end_record_from_json(
        Json{{"ending", string_at(index, "ending")}, {"drops", index.value("drops", Json::object())}}.dump());
    pass_.info.ending = end.ending;
    pass_.info.drops = end.drops;
    if (const auto metadata = index.find("metadata"); metadata != index.end() && metadata->is_object())
      pass_.info.metadata_json = metadata->dump();
    const auto events = index.find("events"), tensors = index.find("tensors");
    if (events == index.end() || !events->is_array() || tensors == index.end() || !tensors->is_array())
      return corrupt("'events' or 'tensors' is not a list");
    if (events->size() >= kNoEvent || tensors->size() >= kNoNumber) return corrupt("too many events or tensors");
    tensor_count_ = tensors->size();
    for (const Json& event : *events) TTAP_TRY(add_event(event));
    for (const Json& tensor : *tensors) TTAP_TRY(add_tensor(tensor));
    return {};
  }

 private:
  std::string place() const { return (folder_ / kGraphIndexName).string(); }
  Error corrupt(std::string message) const { return {ErrorCode::kCorrupt, std::move(message), place()}; }

  static std::string string_at(const Json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
  }
  static uint64_t number_at(const Json& object, const char* name, uint64_t otherwise) {
    const auto found = object.find(name);
    return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : otherwise;
  }
  static uint32_t small_at(const Json& object, const char* name, uint32_t otherwise) {
    return static_cast<uint32_t>(std::min<uint64_t>(number_at(object, name, otherwise), UINT32_MAX));
  }
  static double real_at(const Json& object, const char* name) {
    const auto found = object.find(name);
    if (found != object.end() && found->is_number()) return found->get<double>();
    const std::string text = string_at(object, name);
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return text == "inf" ? kInfinity : text == "-inf" ? -kInfinity : std::nan("");
  }
  // Numbers; nothing when it is another thing.
  static std::optional<std::vector<int64_t>> list_at(const Json& object, const char* name) {
    std::vector<int64_t> numbers;
    const auto found = object.find(name);
    if (found == object.end()) return numbers;
    if (!found->is_array() || found->size() > kMaxDims) return std::nullopt;
    for (const Json& item : *found) {
      if (!item.is_number_integer()) return std::nullopt;
      numbers.push_back(item.get<int64_t>());
    }
    return numbers;
  }

  Status add_event(const Json& json) {
    if (!json.is_object()) return corrupt("an event is not an object");
    const size_t index = pass_.events.size();
    StoredEvent event{.name = string_at(json, "name"),
                      .kind = string_at(json, "kind"),
                      .call = small_at(json, "call", 1),
                      .parent = small_at(json, "parent", kNoEvent),
                      .thread = number_at(json, "thread", 0),
                      .time_ns = number_at(json, "time_ns", 0),
                      .stack = string_at(json, "stack"),
                      .arguments = string_at(json, "arguments"),
                      .results = string_at(json, "results"),
                      .forward = small_at(json, "forward", kNoEvent),
                      .duration_ns = number_at(json, "duration_ns", 0),
                      .returned = json.contains("duration_ns")};
    if (const auto notes = json.find("notes"); notes != json.end())
      event.notes = notes->is_string() ? notes->get<std::string>() : notes->dump();
    // Earlier, so that who follows them from event to event comes to an end.
    if (event.parent != kNoEvent && event.parent >= index) return corrupt("an event is inside one that comes after it");
    if (event.forward != kNoEvent && event.forward >= index)
      return corrupt("an event has a forward that comes after it");
    if (const auto uses = json.find("uses"); uses != json.end()) {
      if (!uses->is_array()) return corrupt("'uses' is not a list");
      for (const Json& use : *uses) {
        if (!use.is_object()) return corrupt("a use is not an object");
        const auto written = use.find("written");
        event.uses.push_back({.role = string_at(use, "role"),
                              .path = string_at(use, "path"),
                              .tensor = small_at(use, "tensor", kNoNumber),
                              .record = small_at(use, "record", kNoNumber),
                              .written = written != use.end() && *written == true});
        if (const uint32_t record = event.uses.back().record; record != kNoNumber && record >= tensor_count_)
          return corrupt("a use refers to a tensor that is not there");
      }
    }
    pass_.events.push_back(std::move(event));
    return {};
  }

  Status add_tensor(const Json& json) {
    if (!json.is_object()) return corrupt("an entry of 'tensors' is not an object");
    StoredTensor tensor{.name = string_at(json, "name"),
                        .call = small_at(json, "call", 1),
                        .role = string_at(json, "role"),
                        .path = string_at(json, "path"),
                        .event = small_at(json, "event", kNoEvent),
                        .device = string_at(json, "device"),
                        .value = small_at(json, "value", 0)};
    if (const auto group = json.find("group"); group != json.end())
      tensor.group = group->is_string() ? group->get<std::string>() : group->dump();
    if (!is_valid_name(tensor.name) || !is_valid_role(tensor.role) || !is_valid_path(tensor.path) || tensor.call == 0)
      return corrupt("a tensor without a proper key");
    if (tensor.event != kNoEvent && tensor.event >= pass_.events.size())
      return corrupt("a tensor refers to an event that is not there");
    const auto dtype = dtype_from_name(string_at(json, "dtype"));
    const auto level = level_from_name(string_at(json, "level"));
    auto shape = list_at(json, "shape"), strides = list_at(json, "strides");
    if (!dtype || !level || !shape || !strides)
      return corrupt(fmt::format("'{}' has no proper dtype, level, shape or strides", brief_text(tensor.name)));
    if (!strides->empty() && strides->size() != shape->size())
      return corrupt("strides of another length than the shape");
    if (!checked_element_count(*shape, *dtype).ok()) return corrupt("a shape that no tensor can have");
    tensor.level = *level;
    tensor.strides = std::move(*strides);
    tensor.dtype = *dtype;
    tensor.shape = std::move(*shape);
    const std::string file = string_at(json, "file");
    if (!file.empty()) {
      if (!is_in_rank(file)) return corrupt(fmt::format("'{}' is not a file of this rank", brief_text(file)));
      tensor.file = folder_.parent_path().parent_path() / file;
      const auto codes = json.find("codes");
      tensor.codes = codes != json.end() && *codes == true;
      if (npy_lacks(*dtype) && !tensor.codes) {
        tensor.true_dtype = *dtype;
        tensor.dtype = npy_stored_dtype(*dtype);
        tensor.shape = npy_stored_shape(*dtype, tensor.shape);
        tensor.strides.clear();
        if (!checked_element_count(tensor.shape, tensor.dtype).ok()) return corrupt("a shape that no tensor can have");
      }
    }
    if (const std::string hash = string_at(json, "hash"); !hash.empty()) TTAP_TRY(add_fingerprint(json, hash, tensor));
    pass_.tensors.push_back(std::move(tensor));
    return {};
  }

  // `graph_…/N/name.npy`, or the index could lead out of the folder.
  static bool is_in_rank(const std::string& file) {
    if (file.find('\0') != std::string::npos) return false;
    const fs::path path(file);
    const std::vector<fs::path> parts(path.begin(), path.end());
    return parts.size() == 3 && parts[2].extension() == ".npy" && parse_step_folder(path.parent_path()).has_value();
  }

  Status add_fingerprint(const Json& json, const std::string& hash, StoredTensor& tensor) const {
    Fingerprint found;
    const auto half = [&](size_t begin, uint64_t& bits) {
      const char* first = hash.data() + begin;
      return std::from_chars(first, first + 16, bits, 16).ptr == first + 16;
    };
    if (hash.size() != 32 || !half(0, found.hash.high) || !half(16, found.hash.low))
      return corrupt(fmt::format("'{}' is no hash", brief_text(hash)));
    const auto stats = json.find("statistics");
    if (stats == json.end() || !stats->is_object()) return corrupt("a hash without statistics");
    found.stats = {.count = number_at(*stats, "count", 0),
                   .nan = number_at(*stats, "nan", 0),
                   .pos_inf = number_at(*stats, "pos_inf", 0),
                   .neg_inf = number_at(*stats, "neg_inf", 0),
                   .zeros = number_at(*stats, "zeros", 0),
                   .subnormals = number_at(*stats, "subnormals", 0),
                   .min = real_at(*stats, "min"),
                   .max = real_at(*stats, "max"),
                   .max_abs = real_at(*stats, "max_abs"),
                   .min_abs_nonzero = real_at(*stats, "min_abs_nonzero"),
                   .mean = real_at(*stats, "mean"),
                   .std = real_at(*stats, "std"),
                   .l1 = real_at(*stats, "l1"),
                   .l2 = real_at(*stats, "l2")};
    tensor.fingerprint = found;
    return {};
  }

  const fs::path& folder_;
  StoredPass& pass_;
  size_t tensor_count_ = 0;
};

}  // namespace

Result<std::optional<GraphIndexHead>> read_graph_index_head(const fs::path& folder) {
  const fs::path path = folder / kGraphIndexName;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::optional<GraphIndexHead>();
  TTAP_ASSIGN(const auto file, MappedFile::open(path));
  const std::string_view text = text_of(*file);
  HeadReader reader;
  (void)Json::sax_parse(text.begin(), text.end(), &reader);
  if (reader.format != kGraphFormat) return std::optional<GraphIndexHead>();
  if (reader.version != kGraphVersion)
    return Error{ErrorCode::kVersion, fmt::format("not version {} of the index", kGraphVersion), path.string()};
  if (!reader.has_pass) return Error{ErrorCode::kCorrupt, "the index does not say which pass it is", path.string()};
  return std::optional(std::move(reader.head));
}

Result<StoredPass> parse_graph_index(std::string_view text, const fs::path& folder) {
  StoredPass pass;
  pass.info.path = folder;
  pass.info.format = Format::kNpy;
  bool too_deep = false;  // for code that walks it
  const auto bearable = [&](int depth, Json::parse_event_t, const Json&) { return !(too_deep |= depth > kDeepest); };
  const Json index = Json::parse(text, bearable, /*allow_exceptions=*/false);
  if (too_deep) return Error{ErrorCode::kTooLarge, "JSON that is nested too deep", (folder / kGraphIndexName).string()};
  TTAP_TRY(IndexReader(folder, pass).read(index));
  return pass;
}

Result<StoredPass> read_graph_index(const fs::path& folder) {
  TTAP_ASSIGN(const auto file, MappedFile::open(folder / kGraphIndexName));
  TTAP_ASSIGN(StoredPass pass, parse_graph_index(text_of(*file), folder));
  pass.info.file_bytes = file->bytes().size();
  std::vector<fs::path> files;
  for (const StoredTensor& tensor : pass.tensors)
    if (!tensor.file.empty()) files.push_back(tensor.file);
  std::ranges::sort(files);
  files.erase(std::unique(files.begin(), files.end()), files.end());
  for (const fs::path& each : files) {
    std::error_code error;
    const uintmax_t size = fs::file_size(each, error);
    if (!error) pass.info.file_bytes += size;
  }
  pass.info.readable_bytes = pass.info.file_bytes;
  return pass;
}

}  // namespace ttap
