#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "analyze/ops/event_op.h"
#include "analyze/ops/role_flow.h"
#include "report/log/argument_text.h"
#include "report/log/event_notes.h"
#include "report/log/event_tensors.h"
#include "report/log/event_text.h"
#include "report/log/log_selection.h"
#include "report/text/json_writer.h"

namespace ttap {
namespace {

bool is_input(const UseRecord& use) { return use.role == "in" || use.role == "part"; }

// `encoder.layer.0` → `encoder/layer/0`
std::string as_layers(std::string_view scope) {
  std::string layers(scope);
  std::ranges::replace(layers, '.', '/');
  return layers;
}

// One pass as a graph.
class Graph {
 public:
  Graph(const Pass& pass, const LogSelection& selection, JsonWriter& json, const Output& out)
      : pass_(pass), selection_(selection), json_(json), out_(out), outside_(pass.tensor_count(), false) {
    size_t graphs = 0;
    for (size_t i = 0; i < pass.event_count(); ++i) {
      operators_ = operators_ || is_call_of_operator(pass.event(i));
      graphs += pass.event(i).kind == kGraphKind;
    }
    several_graphs_ = graphs > 1;
  }

  void write() {
    json_.key("nodes").begin_array();
    for (size_t i = selection_.begin(); i < selection_.end() && !out_.closed(); ++i) {
      const EventRecord event = pass_.event(i);
      if (is_node(i, event)) write_node(static_cast<uint32_t>(i), event);
    }
    json_.end();
    write_layers();
  }

 private:
  bool is_node(size_t index, const EventRecord& event) const {
    return (is_call_of_operator(event) || !operators_) && selection_.has(index);
  }

  // What is known of the modules themselves.
  void write_layers() {
    json_.key("groupNodeAttributes").begin_object();
    std::set<std::string_view> written;
    for (size_t i = selection_.begin(); operators_ && i < selection_.end(); ++i) {
      const EventRecord event = pass_.event(i);
      if (event.kind != "module" || event.notes.empty() || !written.insert(event.name).second) continue;
      const std::string class_name = read_notes(event.notes).class_name;
      if (class_name.empty()) continue;
      json_.key(as_layers(event.name)).begin_line().member("class", class_name).end();
    }
    json_.end();
  }

  void attribute(std::string_view key, std::string_view value) {
    if (!value.empty()) json_.begin_line().member("key", key).member("value", value).end();
  }

  void write_tensor_attributes(const TensorRecord& tensor) {
    std::string shape;
    append_type(shape, tensor);
    attribute("tensor_shape", shape);
    attribute("device", tensor.device);
    if (!tensor.has_fingerprint) return;
    const Stats& stats = tensor.fingerprint.stats;
    attribute("hash", to_string(tensor.fingerprint.hash));
    attribute("mean", fmt::format("{}", stats.mean));
    attribute("max_abs", fmt::format("{}", stats.max_abs));
    if (stats.nan > 0) attribute("NaN", fmt::format("{}", stats.nan));
    if (stats.pos_inf + stats.neg_inf > 0) attribute("Inf", fmt::format("{}", stats.pos_inf + stats.neg_inf));
  }

  std::string layers_of(uint32_t index, const EventRecord& event) const {
    if (!is_call_of_operator(event)) {
      const size_t dot = event.name.rfind('.');
      return dot == std::string_view::npos ? "" : as_layers(event.name.substr(0, dot));
    }
    const EventOp name = op_of_event(pass_, index);
    std::string layers = as_layers(name.scope);
    if (name.backward) layers += layers.empty() ? "backward" : "/backward";
    // Each graph is a layer where there are several.
    if (const uint32_t graph = several_graphs_ && is_node_event(event) ? graph_around(pass_, index) : kNoEvent;
        graph != kNoEvent)
      layers = std::string(pass_.event(graph).name) + (layers.empty() ? "" : "/") + layers;
    return layers;
  }
  static bool is_node_event(const EventRecord& event) { return ttap::is_node(event); }

  void write_node(uint32_t index, const EventRecord& event) {
    uses_.clear();
    for (size_t i = 0; i < event.use_count; ++i) uses_.push_back(pass_.use(index, i));
    if (event.use_count == 0) read_recorded(index);
    const std::string layers = layers_of(index, event);
    for (const UseRecord& use : uses_)
      if (is_input(use)) write_outside(use, layers);
    json_.begin_line().member("id", fmt::format("{}", index)).member("label", label_of(event));
    json_.member("namespace", layers);
    json_.key("attrs").begin_list();
    attribute("key", to_string(Key{.name = std::string(event.name), .call = event.call}));
    attribute("arguments", shortened_arguments(event.arguments));
    attribute("results", event.results);
    attribute("notes", event.notes);
    attribute("thread", fmt::format("{}", event.thread));
    attribute("line", event.stack.substr(event.stack.rfind('\n') + 1));
    attribute("returned", event.returned ? fmt::format("after {} ns", event.duration_ns) : "");
    if (event.parent < pass_.event_count()) attribute("inside", pass_.event(event.parent).name);
    json_.end();
    write_edges();
    write_metadata("inputsMetadata", true);
    write_metadata("outputsMetadata", false);
    json_.end();
  }

  // Of a source that does not tell of uses: what it recorded of the results.
  void read_recorded(uint32_t index) {
    if (!tensors_) tensors_.emplace(pass_, EventTensors::Of::kEventsWithoutUses);
    for (const auto& [_, tensor] : tensors_->of(index)) {
      const TensorRecord record = pass_.tensor(tensor);
      if (!is_argument(record.role)) uses_.push_back({.role = record.role, .path = record.path, .record = tensor});
    }
  }

  static std::string label_of(const EventRecord& event) {
    if (is_node_event(event)) {
      const NodeNotes notes = read_node_notes(event.notes);
      return !notes.parameter.empty() ? notes.parameter : notes.is_given() ? notes.op : notes.target;
    }
    if (is_call_of_operator(event)) return operator_of(event);
    return std::string(event.name.substr(event.name.rfind('.') + 1));
  }

  // A value that no recorded call made: an input, a weight.
  void write_outside(const UseRecord& use, const std::string& layers) {
    if (use.record >= pass_.tensor_count() || outside_[use.record]) return;
    const TensorRecord tensor = pass_.tensor(use.record);
    if (tensor.role != "in") return;
    outside_[use.record] = true;
    const std::string label = use.tensor == kNoNumber ? std::string("value") : fmt::format("t${}", use.tensor);
    json_.begin_line().member("id", fmt::format("value{}", use.record)).member("label", label);
    json_.member("namespace", layers).key("attrs").begin_list();
    attribute("from", "outside");
    json_.end().key("outputsMetadata").begin_list().begin_line().member("id", "0").key("attrs").begin_list();
    write_tensor_attributes(tensor);
    json_.end().end().end().end();
  }

  void write_edges() {
    json_.key("incomingEdges").begin_list();
    size_t input = 0;
    for (const UseRecord& use : uses_) {
      if (!is_input(use)) continue;
      write_edge(use, input++);
    }
    json_.end();
  }

  void write_edge(const UseRecord& use, size_t input) {
    if (use.record >= pass_.tensor_count()) return;
    const TensorRecord tensor = pass_.tensor(use.record);
    std::string source;
    size_t output = 0;
    if (tensor.role == "in") {
      source = fmt::format("value{}", use.record);
    } else {
      if (tensor.event >= pass_.event_count()) return;
      const EventRecord producer = pass_.event(tensor.event);
      if (!is_node(tensor.event, producer)) return;
      source = fmt::format("{}", tensor.event);
      output = output_of(tensor.event, producer, use.record);
    }
    json_.begin_line().member("sourceNodeId", source).member("sourceNodeOutputId", fmt::format("{}", output));
    json_.member("targetNodeInputId", fmt::format("{}", input)).end();
  }

  // Which of its producer's outputs a value is.
  size_t output_of(uint32_t index, const EventRecord& producer, uint32_t record) const {
    size_t output = 0;
    for (size_t i = 0; i < producer.use_count; ++i) {
      const UseRecord use = pass_.use(index, i);
      if (is_input(use)) continue;
      if (use.record == record) return output;
      ++output;
    }
    return 0;
  }

  void write_metadata(std::string_view member, bool inputs) {
    json_.key(member).begin_list();
    size_t number = 0;
    for (const UseRecord& use : uses_) {
      if (is_input(use) != inputs) continue;
      json_.begin_line().member("id", fmt::format("{}", number++)).key("attrs").begin_list();
      if (inputs) attribute("__tensor_tag", use.path.substr(use.path.starts_with('/') ? 1 : 0));
      if (use.tensor != kNoNumber) attribute("tensor", fmt::format("${}", use.tensor));
      if (!inputs && use.role != "out") attribute("role", use.role);
      if (!inputs && use.record < pass_.tensor_count()) write_tensor_attributes(pass_.tensor(use.record));
      json_.end().end();
    }
    json_.end();
  }

  const Pass& pass_;
  const LogSelection& selection_;
  JsonWriter& json_;
  const Output& out_;
  std::vector<bool> outside_;            // values from outside that have a node
  std::optional<EventTensors> tensors_;  // made when it is first needed
  std::vector<UseRecord> uses_;
  bool operators_ = false;
  bool several_graphs_ = false;
};

}  // namespace

class ModelExplorerWriter::Impl {
 public:
  explicit Impl(Output& out) : out_(out), json_(out) {
    json_.begin_object().member("label", "TensorTap").key("graphs").begin_array();
  }

  Status add(const Pass& pass, const LogOptions& options, const LogSource& source) {
    TTAP_ASSIGN(const LogSelection selection, LogSelection::make(pass, options));
    json_.begin_object();
    json_.member("id", fmt::format("rank {} (pid {}), pass {}", source.rank, source.pid, pass.info().number));
    Graph(pass, selection, json_, out_).write();
    json_.end();
    return {};
  }

  void finish() { json_.end().end(); }

 private:
  Output& out_;
  JsonWriter json_;
};

ModelExplorerWriter::ModelExplorerWriter(Output& out) : impl_(std::make_unique<Impl>(out)) {}
ModelExplorerWriter::~ModelExplorerWriter() = default;
Status ModelExplorerWriter::add(const Pass& pass, const LogOptions& options, const LogSource& source) {
  return impl_->add(pass, options, source);
}
void ModelExplorerWriter::finish() { impl_->finish(); }

}  // namespace ttap
