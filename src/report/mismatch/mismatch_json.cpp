#include "report/diff/diff_report.h"
#include "report/mismatch/mismatch_report.h"
#include "report/text/json_writer.h"

namespace ttap {
namespace {

void write_source(JsonWriter& json, std::string_view name, const LogprobSource& source) {
  json.key(name).begin_line();
  if (source.logits.empty()) {
    json.member("recorded", true);
  } else {
    json.member("recorded", false).member("logits", source.logits).member("dtype", dtype_name(source.dtype));
  }
  json.end();
}

void write_token(JsonWriter& json, const MismatchReport& report, const TokenMismatch& token) {
  json.begin_line().member("request", report.requests[token.request]).member("position", token.position);
  json.member("token", token.token).member("rollout", token.rollout).member("trainer", token.trainer).end();
}

void write_measures(JsonWriter& json, const MismatchReport& report) {
  const MismatchMeasures& found = report.measures;
  json.key("measures").begin_object();
  json.member("mean_abs_probability", found.mean_abs_probability);
  json.member("max_abs_probability", found.max_abs_probability);
  json.member("std_abs_probability", found.std_abs_probability);
  json.member("pearson", found.pearson);
  json.member("mean_abs_logprob", found.mean_abs_logprob).member("max_abs_logprob", found.max_abs_logprob);
  json.member("k1", found.k1).member("k3", found.k3);
  json.key("kl");
  found.kl ? json.value(*found.kl) : json.null();
  json.member("ratio", report.ratio).member("beyond", found.beyond).member("nonfinite", found.nonfinite);
  json.member("rollout_perplexity", found.rollout_perplexity);
  json.member("trainer_perplexity", found.trainer_perplexity).end();
}

}  // namespace

void write_mismatch_json(const MismatchReport& report, Output& out) {
  JsonWriter json(out);
  json.begin_object();
  json.member("rollout", report.rollout).member("trainer", report.trainer);
  json.member("level", to_string(report.level())).member("sentence", mismatch_sentence(report));
  json.key("causes").begin_array();
  for (const std::string& cause : mismatch_causes(report)) json.value(cause);
  json.end();
  write_measures(json, report);
  write_source(json, "from_rollout", report.from_rollout);
  write_source(json, "from_trainer", report.from_trainer);
  json.key("temperatures").begin_array();
  for (const OtherTemperature& found : report.temperatures)
    json.begin_line()
        .member("of", found.of_trainer ? "trainer" : "rollout")
        .member("logits", found.of_trainer == found.own_logits ? "trainer" : "rollout")
        .member("temperature", found.temperature)
        .end();
  json.end().key("dtypes");
  if (report.dtypes) {
    json.begin_line().member("key", report.dtypes->key).member("rollout", dtype_name(report.dtypes->rollout));
    json.member("trainer", dtype_name(report.dtypes->trainer)).member("count", report.dtypes->count);
    json.member("of", report.dtypes->of).end();
  } else {
    json.null();
  }
  json.key("diff");
  if (report.diff) {
    json.begin_object().member("verdict", to_string(report.diff->verdict));
    json.member("sentence", verdict_sentence(*report.diff)).key("first");
    const std::optional<DiffPlace> first = report.diff->first();
    first ? json.value(key_of(report.diff->passes[first->pass], report.diff->at(*first))) : json.null();
    json.end();
  } else {
    json.null();
  }
  json.member("not_compared", report.not_compared);
  json.key("worst").begin_array();
  for (const uint32_t index : report.worst) write_token(json, report, report.tokens[index]);
  json.end().key("tokens").begin_array();
  for (const TokenMismatch& token : report.tokens) write_token(json, report, token);
  json.end().key("notes").begin_array();
  for (const std::string& note : report.notes) json.value(note);
  json.end().end();
  out.write("\n");
}

}  // namespace ttap
