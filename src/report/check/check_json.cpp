#include "report/check/check_report.h"
#include "report/run/describe.h"

namespace ttap {
namespace {

void write_first(JsonWriter& json, const CheckReport& report) {
  const FirstFinding& first = *report.first;
  const CheckedTensor& tensor = first.tensor;
  json.begin_object();
  write_checked(json, tensor);
  write_counts(json, tensor.counts);
  json.key("place");
  first.place ? write_located(json, *first.place, tensor.shape) : void(json.null());
  json.key("event");
  if (first.event) {
    json.begin_line().member("kind", first.event->kind).member("name", first.event->name);
    json.member("call", first.event->call)
        .member("parents", first.event->parents)
        .member("stack", first.event->stack)
        .end();
  } else {
    json.null();
  }
  json.key("inputs").begin_array();
  for (const CheckedInput& input : first.inputs) {
    json.begin_line();
    write_checked(json, input.tensor);
    json.member("finite", input.finite).key("statistics");
    input.stats ? write_stats(json, *input.stats) : void(json.null());
    json.end();
  }
  json.end().key("before");
  first.before ? json.value(*first.before) : json.null();
  json.key("origin");
  first.origin_report ? write_origin_report(json, *first.origin_report) : void(json.null());
  json.end();
}

}  // namespace

void write_troubles(JsonWriter& json, std::string_view name, std::span<const CheckTrouble> troubles) {
  json.key(name).begin_array();
  for (const CheckTrouble& trouble : troubles) {
    json.begin_line();
    write_checked(json, trouble.tensor);
    json.key("error");
    write_error(json, trouble.error);
    json.end();
  }
  json.end();
}

void write_passes(JsonWriter& json, const std::vector<CheckedPass>& passes, const std::vector<Error>& unreadable) {
  json.key("passes").begin_array();
  for (const CheckedPass& pass : passes) {
    json.begin_line().member("rank", pass.rank).member("pid", pass.pid).member("pass", pass.info.number);
    write_condition(json, pass.info);
    json.end();
  }
  json.end().key("unreadable").begin_array();
  for (const Error& error : unreadable) write_error(json, error);
  json.end();
}

void write_json(const CheckReport& report, Output& out) {
  JsonWriter json(out);
  json.begin_object().member("command", "check").member("path", report.path);
  json.member("run", report.run).member("runs", report.runs).member("conclusive", report.conclusive());
  json.key("lost").begin_line().member("passes", report.lost.passes).member("tensors", report.lost.tensors).end();
  json.member("judged", report.judged).member("left_out", report.unwanted).member("warm_ups", report.warm_ups);
  json.member("without_value", report.without_value);
  json.key("first");
  report.first ? write_first(json, report) : void(json.null());
  json.key("found").begin_array();
  for (const CheckedTensor& tensor : report.found) {
    json.begin_line();
    write_checked(json, tensor);
    write_counts(json, tensor.counts);
    json.key("because");
    if (tensor.because) {
      json.begin_line().member("origin", to_string(tensor.because->origin));
      json.member("inherited", tensor.because->inherited).member("fault", tensor.because->fault).key("from_rank");
      tensor.because->from_rank ? json.value(*tensor.because->from_rank) : json.null();
      json.end();
    } else {
      json.null();
    }
    json.end();
  }
  json.end();
  write_troubles(json, "unjudged", report.unjudged);
  json.key("suspects").begin_array();
  for (const CheckedSuspect& suspect : report.suspects) {
    json.begin_line();
    write_checked(json, suspect.tensor);
    json.member("suspicion", suspect.suspicion == Suspicion::kUnderflow ? "underflow" : "near_overflow");
    json.key("statistics");
    write_stats(json, suspect.stats);
    json.end();
  }
  json.end();
  json.key("verified");
  if (report.verified) {
    json.begin_line().member("tensors", report.verified_tensors).member("bytes", report.verified_bytes);
    json.member("without_hash", report.without_hash).end();
  } else {
    json.null();
  }
  write_troubles(json, "damaged", report.damaged);
  write_passes(json, report.passes, report.unreadable);
  json.end();
}

}  // namespace ttap
