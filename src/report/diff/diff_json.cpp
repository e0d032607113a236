#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "analyze/check/quant_groups.h"
#include "analyze/diff/sides/made_value.h"
#include "core/json.h"
#include "report/diff/diff_page.h"
#include "report/diff/diff_report.h"
#include "report/diff/quantized_words.h"
#include "report/log/call_text.h"
#include "report/tensor/quant_picture_report.h"
#include "report/text/json_writer.h"
#include "report/text/packed_numbers.h"
#include "report/text/text.h"

namespace ttap {
namespace {

void write_run(JsonWriter& json, const ComparedRun& run) {
  const auto raw = [&](std::string_view name, const std::string& text) {
    json.key(name);
    is_json(text) ? json.raw(text) : json.null();
  };
  json.begin_object().member("path", run.path).member("ranks", run.ranks);
  json.member("run", run.number).member("runs", run.runs);
  json.key("lost").begin_line().member("passes", run.lost.passes).member("tensors", run.lost.tensors).end();
  raw("metadata", run.metadata_json);
  raw("coverage", run.coverage_json);
  json.end();
}

void write_place(JsonWriter& json, const std::optional<DiffPlace>& place) {
  if (!place) {
    json.null();
    return;
  }
  json.begin_line().member("pass", place->pass).member("tensor", place->tensor).end();
}

void write_tokens(JsonWriter& json, const std::optional<ComparedTokens>& tokens) {
  if (!tokens) {
    json.null();
    return;
  }
  json.begin_line().member("requests", tokens->requests).member("tokens", tokens->tokens);
  json.member("only_a", tokens->only_a).member("only_b", tokens->only_b).member("gaps", tokens->gaps);
  json.member("passes_a", tokens->passes_a).member("passes_b", tokens->passes_b);
  json.member("left_out_a", tokens->left_out_a).member("left_out_b", tokens->left_out_b).end();
}

void write_pair(JsonWriter& json, const WorstPair& worst, std::span<const int64_t> shape) {
  const auto index = index_of(worst.element, shape);
  json.begin_line().member("index", std::span<const int64_t>(index)).member("part", worst.part);
  json.member("a", worst.a).member("b", worst.b).end();
}

void write_measures(JsonWriter& json, const Measures& m, double relative, std::span<const int64_t> shape) {
  json.begin_line();
  json.member("count", m.count).member("finite", m.finite).member("unequal", m.unequal).member("outside", m.outside);
  json.member("nan_mismatches", m.nan_mismatches).member("inf_mismatches", m.inf_mismatches);
  json.member("max_abs", m.max_abs).member("mean_abs", m.mean_abs).member("max_rel", m.max_rel);
  json.member("rmse", m.rmse).member("cosine", m.cosine).member("sqnr_db", m.sqnr_db);
  json.member("rms_a", m.rms_a).member("rms_b", m.rms_b).member("relative", relative);
  const auto steps = [&](std::string_view name, const std::optional<uint64_t>& count) {
    json.key(name);
    count ? json.value(*count) : json.null();
  };
  steps("max_ulp", m.max_ulp);
  steps("p99_ulp", m.p99_ulp);
  json.key("worst");
  if (m.worst) {
    write_pair(json, *m.worst, shape);
  } else {
    json.null();
  }
  json.end();
}

void write_judge(JsonWriter& json, const Judge& judge) {
  json.begin_line().member("rtol", judge.tolerance.rtol).member("atol", judge.tolerance.atol);
  json.key("relative");
  std::isfinite(judge.most_relative) ? json.value(judge.most_relative) : json.null();
  json.member("equal_nan", judge.tolerance.equal_nan).key("predicate");
  judge.predicate ? json.value(judge.predicate->text()) : json.null();
  json.member("source", judge.source).end();
}

std::string_view matched_text(MatchedBy by) {
  switch (by) {
    case MatchedBy::kKey: return "key";
    case MatchedBy::kMap: return "map";
    case MatchedBy::kDeclared: return "declared";
    case MatchedBy::kStructure: return "structure";
    case MatchedBy::kValues: return "values";
    case MatchedBy::kOp: return "op";
    case MatchedBy::kBits: return "bits";
    case MatchedBy::kPlace: return "place";
    case MatchedBy::kNothing: return "";
  }
  return "";
}

// What is known of the calls that made a tensor which an operator is blamed for.
void write_calls(JsonWriter& json, const PassDiff& pass, const TensorDiff& tensor) {
  for (const auto& [side, index, name] :
       {std::tuple(pass.a.get(), tensor.match.a, "call_a"), std::tuple(pass.b.get(), tensor.match.b, "call_b")}) {
    if (index == kNoTensor || side->tensor(index).event >= side->event_count()) continue;
    const uint32_t event = side->tensor(index).event;
    json.key(name).begin_line().member("name", side->event(event).name).member("text", call_text(*side, event));
    json.member("line", user_line(side->event(event).stack)).end();
  }
}

void write_tensor(JsonWriter& json, const PassDiff& pass, uint32_t position) {
  const TensorDiff& tensor = pass.tensors[position];
  const bool both = tensor.match.a != kNoTensor && tensor.match.b != kNoTensor;
  const Side& side = tensor.match.a != kNoTensor ? *pass.a : *pass.b;
  const TensorRecord record = record_of(pass, tensor);
  json.begin_line().member("order", position + 1).member("key", to_string(record.key()));
  json.member("name", record.name).member("call", record.call).member("role", record.role);
  if (both) {
    const TensorRecord b = pass.b->tensor(tensor.match.b);
    const std::string key_b = to_string(b.key());
    if (key_b != to_string(record.key())) json.member("key_b", key_b);
    if (dtype_text(b) != dtype_text(record)) json.member("dtype_b", dtype_text(b));
    if (!std::ranges::equal(b.shape, record.shape)) json.member("shape_b", b.shape);
  }
  json.member("matched", matched_text(tensor.match.by));
  if (tensor.match.made_a != nullptr) json.member("made_a", made_text(*pass.a, *tensor.match.made_a));
  if (tensor.match.made_b != nullptr) json.member("made_b", made_text(*pass.b, *tensor.match.made_b));
  if (tensor.match.rule > 0) json.member("map_line", tensor.match.rule);
  json.member("confidence", std::round(1e4 * static_cast<double>(tensor.match.confidence)) / 1e4);
  if (record.event < side.event_count()) {
    const EventRecord event = side.event(record.event);
    json.member("event_kind", event.kind).key("parent");
    event.parent < side.event_count() ? json.value(side.event(event.parent).name) : json.null();
  }
  if (tensor.match.trivial) json.member("trivial", true);
  if (!tensor.tensor_name.empty()) json.member("tensor_name", tensor.tensor_name).member("updates", tensor.updates);
  for (const auto& [owner, index, name] : {std::tuple(pass.a.get(), tensor.match.a, "quantized_a"),
                                           std::tuple(pass.b.get(), tensor.match.b, "quantized_b")}) {
    if (index == kNoTensor) continue;
    if (const auto format = quantized_as(owner->tensor(index))) json.member(name, quant_format_text(*format));
  }
  json.member("dtype", dtype_text(record)).member("shape", record.shape);
  json.member("verdict", to_string(tensor.verdict)).member("evidence", to_string(tensor.evidence));
  json.member("cause", to_string(tensor.cause)).member("reason", tensor.reason).key("from");
  tensor.source != kNoTensor ? json.value(tensor.source) : json.null();
  if (tensor.source_pass != kNoTensor) json.member("from_pass", tensor.source_pass);
  if (tensor.cause == Cause::kIntroduced) write_calls(json, pass, tensor);
  json.key("ranks").begin_list();
  for (const uint32_t rank : tensor.ranks) json.value(rank);
  json.end().member("note", tensor.note).key("tolerance");
  if (tensor.judge != nullptr) {
    write_judge(json, *tensor.judge);
  } else {
    json.null();
  }
  json.key("measures");
  if (tensor.measures != nullptr) {
    write_measures(json, *tensor.measures, relative_error(tensor), compared_shape(tensor, record));
  } else {
    json.null();
  }
  json.key("axes").begin_list();
  for (const AxisWorst& axis : tensor.axes) {
    json.begin_line().member("axis", axis.axis).member("first", axis.first).member("width", axis.width);
    json.member("max_abs", axis.max_abs).member("share", axis.share).end();
  }
  json.end().end();
}

void write_counts(JsonWriter& json, std::string_view name, std::span<const uint64_t> counts) {
  json.key(name).begin_list();
  for (const uint64_t count : counts) json.value(count);
  json.end();
}

void write_detail(JsonWriter& json, const DiffReport& report, DiffPlace place, const PairDetail& detail) {
  const TensorRecord record = record_of(report.passes[place.pass], report.at(place));
  json.begin_line().member("pass", place.pass).member("tensor", place.tensor);
  const HeatMap& heat = detail.heat;
  json.key("heat").begin_line().member("rows", heat.rows).member("columns", heat.columns);
  json.member("row_step", heat.row_step).member("column_step", heat.column_step);
  json.member("cells_down", heat.cells_down).member("cells_right", heat.cells_right);
  write_packed(json.key("cells"), std::span<const float>(heat.cells));
  json.end().key("histogram").begin_line();
  json.member("low", detail.histogram.low).member("high", detail.histogram.high);
  write_counts(json, "a", detail.histogram.a);
  write_counts(json, "b", detail.histogram.b);
  json.end().key("axes").begin_list();
  for (const AxisError& axis : detail.axes) {
    json.begin_line().member("axis", axis.axis).member("width", axis.width);
    write_packed(json.key("max_abs"), std::span<const double>(axis.max_abs));
    std::vector<double> rmse(axis.mean_sq.size());
    std::ranges::transform(axis.mean_sq, rmse.begin(), [](double mean_sq) { return std::sqrt(mean_sq); });
    write_packed(json.key("rmse"), std::span<const double>(rmse));
    write_counts(json, "outside", axis.outside);
    json.end();
  }
  json.end().key("worst").begin_list();
  for (const WorstPair& worst : detail.worst) write_pair(json, worst, compared_shape(report.at(place), record));
  json.end();
  for (const auto& [name, picture] : {std::pair("quant_a", &detail.quant_a), std::pair("quant_b", &detail.quant_b)}) {
    if (!*picture) continue;
    json.key(name);
    write_quant_picture(json, **picture);
  }
  json.end();
}

void write_texts(JsonWriter& json, std::string_view name, const std::vector<std::string>& texts) {
  json.key(name).begin_list();
  for (const std::string& text : texts) json.value(text);
  json.end();
}

}  // namespace

void write_diff_json(const DiffReport& report, Output& out) {
  JsonWriter json(out);
  json.begin_object().member("format", "ttap-diff").member("version", 1);
  json.member("verdict", to_string(report.verdict)).member("sentence", verdict_sentence(report));
  write_texts(json, "evidence", evidence_lines(report));
  json.key("a");
  write_run(json, report.a);
  json.key("b");
  write_run(json, report.b);
  json.key("counts").begin_line();
  for (int v = 0; v < kVerdicts; ++v) json.member(to_string(static_cast<Verdict>(v)), report.counts[v]);
  json.end().member("not_compared", report.not_compared).member("by_statistics", report.by_statistics);
  json.member("setup_a", report.setup_a).member("setup_b", report.setup_b);
  json.member("trivial_a", report.trivial_a).member("trivial_b", report.trivial_b);
  json.member("parts_a", report.parts_a).member("parts_b", report.parts_b).member("decoded", report.decoded);
  json.key("tokens");
  write_tokens(json, report.tokens);
  json.key("quantized");
  write_quantized(json, report);
  json.key("first");
  write_place(json, report.first());
  json.key("earliest");
  write_place(json, report.earliest);
  json.key("first_unequal");
  write_place(json, report.first_unequal);
  json.key("introduced").begin_list();
  for (const DiffPlace place : report.introduced) write_place(json, place);
  json.end().key("passes").begin_array();
  for (const PassDiff& pass : report.passes) {
    json.begin_object().member("a", pass.a->place()).member("b", pass.b->place()).key("tensors").begin_array();
    for (uint32_t i = 0; i < pass.tensors.size(); ++i) write_tensor(json, pass, i);
    json.end().key("settings").begin_list();
    for (const SettingDiff& setting : pass.settings) {
      json.begin_line().member("call_a", setting.call_a).member("call_b", setting.call_b).member("name", setting.name);
      json.member("a", setting.a).member("b", setting.b).end();
    }
    json.end().key("dropped").begin_list();
    for (const Match& match : pass.dropped) {
      const bool is_a = match.a != kNoTensor;
      const TensorRecord record = is_a ? pass.a->tensor(match.a) : pass.b->tensor(match.b);
      json.begin_line().member("side", is_a ? "a" : "b").member("key", to_string(record.key()));
      json.member("map_line", match.rule).end();
    }
    json.end().end();
  }
  json.end().key("unmatched_passes").begin_list();
  for (const auto& [only, side] : {std::pair(&report.only_a, "a"), std::pair(&report.only_b, "b")})
    for (const std::string& place : *only) json.begin_line().member("side", side).member("place", place).end();
  json.end();
  if (!report.details.empty()) {
    json.key("details").begin_array();
    for (const auto& [place, detail] : report.details) write_detail(json, report, place, detail);
    json.end();
  }
  json.key("thinned").begin_list();
  if (report.details_left_out > 0)
    json.value(
        fmt::format("Charts and worst elements are kept for {} of {} tensors that differ: those that introduced "
                    "an error first, then by relative error.",
                    report.details.size(), report.details.size() + report.details_left_out));
  json.end();
  write_texts(json, "warnings", report.warnings);
  json.end();
  out.write("\n");
}

Status write_diff_page(const DiffReport& report, const std::string& path) {
  std::string json;
  Output out(json);
  write_diff_json(report, out);
  TTAP_TRY(out.finish());
  return write_page(json, fmt::format("ttap diff {} {}", report.a.path, report.b.path), path);
}

}  // namespace ttap
