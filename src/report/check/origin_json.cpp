#include "report/check/origin.h"
#include "report/run/describe.h"

namespace ttap {
namespace {

void write_call(JsonWriter& json, const std::optional<DescribedOrigin::Call>& call) {
  if (!call) {
    json.null();
    return;
  }
  json.begin_object().member("name", call->name).member("call", call->number).member("backward", call->backward);
  json.member("module", call->module).member("text", call->text).key("stack").begin_array();
  for (const std::string& frame : call->stack) json.value(frame);
  json.end().end();
}

void write_argument(JsonWriter& json, const DescribedArgument& argument) {
  json.begin_line().member("path", argument.path).member("written", argument.written).key("rank");
  argument.rank ? json.value(*argument.rank) : json.null();
  json.member("finite", argument.finite).key("from");
  argument.from.empty() ? json.null() : json.value(argument.from);
  json.key("tensor");
  if (argument.tensor) {
    json.begin_line();
    write_checked(json, *argument.tensor);
    json.end();
  } else {
    json.null();
  }
  json.key("statistics");
  argument.stats ? write_stats(json, *argument.stats) : void(json.null());
  json.end();
}

void write_collective(JsonWriter& json, const DescribedCollective& collective) {
  json.begin_object().member("op", collective.op).member("group", collective.group);
  json.member("number", collective.number).key("problem");
  collective.problem.empty() ? json.null() : json.value(collective.problem);
  json.key("contributions").begin_array();
  for (const DescribedCollective::Contribution& each : collective.contributions) {
    json.begin_line().member("group_rank", each.group_rank).key("rank");
    each.rank ? json.value(*each.rank) : json.null();
    json.member("known", each.known).member("finite", each.finite).key("missing");
    each.missing.empty() ? json.null() : json.value(each.missing);
    json.end();
  }
  json.end().end();
}

void write_spread(JsonWriter& json, const std::vector<DescribedSpread>& spread) {
  json.key("spread").begin_array();
  for (const DescribedSpread& each : spread) {
    json.begin_line().member("op", each.op).member("group", each.group).member("number", each.number);
    json.member("from_rank", each.from).key("to_ranks").begin_array();
    for (const uint32_t rank : each.to) json.value(rank);
    json.end().end();
  }
  json.end();
}

// Members of the object that is open.
void write_origin(JsonWriter& json, const DescribedOrigin& origin) {
  json.member("kind", to_string(origin.kind)).member("fault", origin.fault).member("harmless", origin.harmless);
  json.member("inherited_by", origin.heirs).key("tensor").begin_line();
  write_checked(json, origin.tensor);
  write_counts(json, origin.tensor.counts);
  json.end().key("call");
  write_call(json, origin.call);
  json.key("forward");
  write_call(json, origin.forward);
  json.key("arguments").begin_array();
  for (const DescribedArgument& argument : origin.arguments) write_argument(json, argument);
  json.end().key("hints").begin_array();
  for (const std::string& hint : origin.hints) json.value(hint);
  json.end().key("collectives").begin_array();
  for (const DescribedCollective& collective : origin.collectives) write_collective(json, collective);
  json.end().key("first_reader");
  origin.first_reader.empty() ? json.null() : json.value(origin.first_reader);
}

void write_linked(JsonWriter& json, std::string_view name, const std::optional<DescribedOrigin>& origin) {
  json.key(name);
  if (!origin) {
    json.null();
    return;
  }
  json.begin_object();
  write_origin(json, *origin);
  json.end();
}

}  // namespace

void write_origin_report(JsonWriter& json, const OriginReport& origin_report) {
  json.begin_object();
  write_origin(json, origin_report.first);
  write_spread(json, origin_report.spread);
  write_linked(json, "inf_from", origin_report.inf_from);
  write_linked(json, "became_nan", origin_report.became_nan);
  json.key("others").begin_array();
  for (const OriginReport::Other& other : origin_report.others) {
    json.begin_line().member("kind", to_string(other.kind)).member("fault", other.fault);
    json.member("harmless", other.harmless).member("inherited_by", other.heirs);
    write_checked(json, other.tensor);
    write_counts(json, other.tensor.counts);
    json.end();
  }
  json.end().end();
}

}  // namespace ttap
