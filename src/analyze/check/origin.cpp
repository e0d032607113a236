#include "analyze/check/origin.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "analyze/ops/event_op.h"
#include "analyze/ops/op_facts.h"
#include "analyze/ops/role_flow.h"
#include "store/graph/graph_notes.h"

namespace ttap {
namespace {

constexpr std::array<std::string_view, 7> kKindNames = {"made",          "nan_from_inf", "came_in",  "unknown",
                                                        "uninitialised", "on_purpose",   "from_rank"};

std::optional<size_t> number_or_nothing(uint32_t number) {
  return number == kNoNumber ? std::nullopt : std::optional<size_t>(number);
}

// Whether a call has it from elsewhere, be it as a part of an argument.
bool is_given(const UseRecord& use) { return use.role == "in" || use.role == "part"; }

// What stands in a record, as far as it is known.
struct Content {
  bool known = false;
  bool nan = false;
  bool inf = false;

  bool bad() const { return nan || inf; }
};

}  // namespace

std::string_view to_string(OriginKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

bool Origin::is_fault() const {
  if (kind == OriginKind::kUninitialised) return first_reader.has_value();
  return kind != OriginKind::kOnPurpose && !harmless && source_is_fault;
}

Descent Origins::descent(size_t tensor) const {
  if (tensor >= nan_.size()) return {};
  return {number_or_nothing(nan_[tensor]), number_or_nothing(inf_[tensor])};
}

std::optional<size_t> Origins::first_of(std::span<const Nonfinite> found) const {
  std::optional<size_t> fault;
  std::optional<size_t> any;
  const auto consider = [&](std::optional<size_t> origin) {
    for (; origin; origin = all_[*origin].inf_from) {
      any = std::min(any.value_or(*origin), *origin);
      if (all_[*origin].is_fault()) fault = std::min(fault.value_or(*origin), *origin);
    }
  };
  for (const Nonfinite& each : found) {
    const Descent from = descent(each.tensor);
    consider(from.nan);
    consider(from.inf);
  }
  return fault ? fault : any;
}

bool has_uses(const Pass& pass) {
  for (size_t i = 0; i < pass.event_count(); ++i)
    if (pass.event(i).use_count > 0) return true;
  return false;
}

// Goes through the records in execution order. A value is recorded before a call uses it, so what a record descends
// from is known when its turn comes.
class OriginSearch {
 public:
  OriginSearch(const Pass& pass, const CollectiveCalls& collectives) : pass_(pass), collectives_(collectives) {}

  Origins run() {
    const size_t count = pass_.tensor_count();
    contents_.resize(count);
    found_.nan_.assign(count, kNoNumber);
    found_.inf_.assign(count, kNoNumber);
    found_.arose_.assign(count, false);
    bool any = false;
    for (size_t i = 0; i < count; ++i) {
      const TensorRecord record = pass_.tensor(i);
      contents_[i] = content_of(i, record);
      if (!contents_[i].bad()) continue;
      any = true;
      judge(i, record);
      if (record.has_fingerprint) same_bytes_.try_emplace(hash_of(record), i);
    }
    if (any) find_harmless();
    return std::move(found_);
  }

 private:
  // What the arguments of a call bring with them.
  struct Arguments {
    bool all_known = true;
    bool nan = false;
    bool inf = false;
    uint32_t nan_from = kNoNumber;
    uint32_t inf_from = kNoNumber;
    bool computes = false;  // with an argument that is not finite, other than by writing into it
  };

  // A call that was given, or returned, the tensor object of this number.
  struct TensorUse {
    uint32_t tensor;
    uint32_t event;
    uint32_t record;
    auto operator<=>(const TensorUse&) const = default;
  };

  static std::pair<uint64_t, uint64_t> hash_of(const TensorRecord& record) {
    return {record.fingerprint.hash.high, record.fingerprint.hash.low};
  }

  Content content_of(size_t tensor, const TensorRecord& record) const {
    if (!can_be_nonfinite(record.dtype)) return {.known = true};
    const auto stats = stats_of(pass_, tensor);
    if (!stats.ok()) return {};
    return {.known = true, .nan = stats->nan > 0, .inf = stats->pos_inf > 0 || stats->neg_inf > 0};
  }

  void judge(size_t tensor, const TensorRecord& record) {
    if (record.event >= pass_.event_count()) return judge_by_bytes(tensor, record);
    const EventRecord event = pass_.event(record.event);
    if (event.use_count == 0 || goes_in(record.role) || is_given_node(event)) return judge_by_bytes(tensor, record);
    if (const auto results = results_of_collectives(tensor); !results.empty()) return judge_results(tensor, results);
    const std::string op = operator_of(event);
    if (leaves_uninitialised(op)) {
      add_origin(OriginKind::kUninitialised, tensor, record.event, contents_[tensor].nan, contents_[tensor].inf);
      return;
    }
    const Arguments arguments = arguments_of(record.event, event, op, tensor);
    if (contents_[tensor].nan) judge_nan(tensor, record.event, event, arguments);
    if (contents_[tensor].inf) judge_inf(tensor, record.event, event, arguments);
    count_heir(tensor, arguments.computes && !is_view_op(op));
  }

  std::vector<CollectiveResult> results_of_collectives(size_t tensor) const {
    return results_behind(pass_, collectives_, static_cast<uint32_t>(tensor));
  }

  // What this rank gave explains it, or the origin stays open until the other ranks are looked at.
  void judge_results(size_t tensor, const std::vector<CollectiveResult>& results) {
    Arguments own;
    for (const CollectiveResult& result : results) {
      const CollectiveCall& call = *collectives_.at(result.event);
      for (const ContributedTensor& given : contribution_of(pass_, call, call.group_rank, result.path))
        if (given.record < tensor) add_content(given.record, own);
    }
    if (contents_[tensor].nan) own.nan ? void(found_.nan_[tensor] = own.nan_from) : leave_open(tensor, results, true);
    if (contents_[tensor].inf && (own.inf || own.nan))
      found_.inf_[tensor] = own.inf ? own.inf_from : own.nan_from;
    else if (contents_[tensor].inf)
      leave_open(tensor, results, false);
    count_heir(tensor, true);
  }

  void leave_open(size_t tensor, const std::vector<CollectiveResult>& results, bool nan) {
    const auto [place, is_new] =
        open_.try_emplace({results.front().event, results.front().path, nan}, found_.all_.size());
    if (is_new) {
      Origin origin{.kind = OriginKind::kUnknown, .tensor = tensor, .event = results.front().event, .nan = nan};
      for (const CollectiveResult& result : results) origin.collectives.push_back({.result = result});
      found_.all_.push_back(std::move(origin));
      found_.arose_[tensor] = true;
    }
    (nan ? found_.nan_ : found_.inf_)[tensor] = static_cast<uint32_t>(place->second);
  }

  void add_content(uint32_t record, Arguments& found) const {
    const Content& content = contents_[record];
    if (content.nan) {
      found.nan = true;
      found.nan_from = std::min(found.nan_from, found_.nan_[record]);
    }
    if (content.inf) {
      found.inf = true;
      found.inf_from = std::min(found.inf_from, found_.inf_[record]);
    }
  }

  // Nothing says what it was made of. The same bytes stood somewhere before, or it came from outside.
  void judge_by_bytes(size_t tensor, const TensorRecord& record) {
    if (const auto results = results_of_collectives(tensor); !results.empty())
      return inherit_from_parts(tensor, record) ? count_heir(tensor, false) : judge_results(tensor, results);
    if (record.has_fingerprint) {
      // In another format the same bytes are other values.
      if (const auto same = same_bytes_.find(hash_of(record));
          same != same_bytes_.end() && pass_.tensor(same->second).dtype == record.dtype) {
        found_.nan_[tensor] = found_.nan_[same->second];
        found_.inf_[tensor] = found_.inf_[same->second];
        return count_heir(tensor, false);
      }
    }
    OriginKind kind = OriginKind::kUnknown;
    if (goes_in(record.role) || (record.event < pass_.event_count() && is_given_node(pass_.event(record.event)))) {
      if (inherit_from_parts(tensor, record) || inherit_from_before(tensor, record)) return count_heir(tensor, false);
      kind = is_number_of_the_program(tensor, record) ? OriginKind::kOnPurpose : OriginKind::kCameIn;
    }
    add_origin(kind, tensor, record.event, contents_[tensor].nan, contents_[tensor].inf);
  }

  // `mask[0] = float("-inf")`: the number becomes a tensor without dimensions on its way into the op.
  bool is_number_of_the_program(size_t tensor, const TensorRecord& record) const {
    if (!record.shape.empty() || contents_[tensor].nan || record.event >= pass_.event_count()) return false;
    const bool constant = plain_op(operator_of(pass_.event(record.event))) == "lift_fresh";
    return constant || (record.dtype == DType::kF64 && record.device == "cpu");
  }

  // An argument into whose bytes others wrote: what they wrote stands in it, beside what was there before.
  bool inherit_from_parts(size_t tensor, const TensorRecord& record) {
    if (record.event >= pass_.event_count()) return false;
    uint32_t nan = kNoNumber;
    uint32_t inf = kNoNumber;
    for (uint32_t i = pass_.event(record.event).use_count; i-- > 0;) {
      const UseRecord use = pass_.use(record.event, i);
      if (use.role != "part") break;
      if (use.path != record.path || use.record >= tensor) continue;
      if (contents_[use.record].nan) nan = std::min(nan, found_.nan_[use.record]);
      if (contents_[use.record].inf) inf = std::min(inf, found_.inf_[use.record]);
    }
    if ((contents_[tensor].nan && nan == kNoNumber) || (contents_[tensor].inf && inf == kNoNumber)) return false;
    if (contents_[tensor].nan) found_.nan_[tensor] = nan;
    if (contents_[tensor].inf) found_.inf_[tensor] = inf;
    return true;
  }

  // A tensor that is recorded again was changed through a view of it. What it held before it may still hold.
  bool inherit_from_before(size_t tensor, const TensorRecord& record) {
    if (record.event >= pass_.event_count()) return false;
    if (uses_of_tensors_.empty()) list_uses_of_tensors();
    uint32_t number = kNoNumber;
    for (size_t i = 0; i < pass_.event(record.event).use_count && number == kNoNumber; ++i)
      if (const UseRecord use = pass_.use(record.event, i); use.record == tensor) number = use.tensor;
    if (number == kNoNumber) return false;
    const auto place = std::ranges::lower_bound(uses_of_tensors_, TensorUse{number, record.event, 0});
    if (place == uses_of_tensors_.begin() || std::prev(place)->tensor != number) return false;
    const uint32_t before = std::prev(place)->record;
    if (before >= tensor) return false;
    const Content& now = contents_[tensor];
    if ((now.nan && !contents_[before].nan) || (now.inf && !contents_[before].inf)) return false;
    if (now.nan) found_.nan_[tensor] = found_.nan_[before];
    if (now.inf) found_.inf_[tensor] = found_.inf_[before];
    return true;
  }

  void list_uses_of_tensors() {
    for (uint32_t event = 0; event < pass_.event_count(); ++event)
      for (size_t i = 0; i < pass_.event(event).use_count; ++i)
        if (const UseRecord use = pass_.use(event, i); use.tensor != kNoNumber && use.record < contents_.size())
          uses_of_tensors_.push_back({use.tensor, event, use.record});
    std::ranges::sort(uses_of_tensors_);
  }

  Arguments arguments_of(uint32_t number, const EventRecord& event, std::string_view op, size_t result) const {
    Arguments found;
    for (size_t i = 0; i < event.use_count; ++i) {
      const UseRecord use = pass_.use(number, i);
      if (use.role != "in") continue;
      if (use.written && overwrites_what_it_writes(op)) continue;
      const bool known = use.record < result && contents_[use.record].known;
      // A kernel is given memory to write its results to.
      if (use.written && event.kind == "kernel" && (!known || is_uninitialised(use.record))) continue;
      if (!known) {
        found.all_known = false;
        continue;
      }
      found.computes = found.computes || (contents_[use.record].bad() && !use.written);
      add_content(use.record, found);
    }
    return found;
  }

  bool is_uninitialised(size_t tensor) const {
    const Descent from = found_.descent(tensor);
    const auto is = [&](std::optional<size_t> origin) {
      return origin && found_.all_[*origin].kind == OriginKind::kUninitialised;
    };
    return is(from.nan) || is(from.inf);
  }

  void judge_nan(size_t tensor, uint32_t number, const EventRecord& event, const Arguments& arguments) {
    if (arguments.nan) {
      found_.nan_[tensor] = arguments.nan_from;
      return;
    }
    const NonfiniteLiterals literals = nonfinite_literals(event.arguments);
    OriginKind kind = OriginKind::kMade;
    if (!arguments.all_known)
      kind = OriginKind::kUnknown;
    else if (literals.nan)
      kind = OriginKind::kOnPurpose;
    else if (arguments.inf || literals.inf)
      kind = OriginKind::kNanFromInf;
    const size_t origin = add_origin(kind, tensor, number, true, false);
    if (kind != OriginKind::kNanFromInf || arguments.inf_from == kNoNumber) return;
    found_.all_[origin].inf_from = arguments.inf_from;
    Origin& source = found_.all_[arguments.inf_from];
    if (!source.became_nan) source.became_nan = origin;
  }

  void judge_inf(size_t tensor, uint32_t number, const EventRecord& event, const Arguments& arguments) {
    if (arguments.inf || arguments.nan) {
      found_.inf_[tensor] = arguments.inf ? arguments.inf_from : arguments.nan_from;
      return;
    }
    OriginKind kind = OriginKind::kMade;
    if (!arguments.all_known)
      kind = OriginKind::kUnknown;
    else if (nonfinite_literals(event.arguments).inf)
      kind = OriginKind::kOnPurpose;
    add_origin(kind, tensor, number, false, true);
  }

  // A call that returns several tensors is one origin.
  size_t add_origin(OriginKind kind, size_t tensor, uint32_t event, bool nan, bool inf) {
    size_t origin = found_.all_.size();
    if (event != kNoEvent && kind != OriginKind::kCameIn)
      origin = by_event_.try_emplace({event, kind}, origin).first->second;
    if (origin == found_.all_.size()) found_.all_.push_back({.kind = kind, .tensor = tensor, .event = event});
    found_.all_[origin].nan = found_.all_[origin].nan || nan;
    found_.arose_[tensor] = true;
    if (nan) found_.nan_[tensor] = static_cast<uint32_t>(origin);
    if (inf) found_.inf_[tensor] = static_cast<uint32_t>(origin);
    return origin;
  }

  void count_heir(size_t tensor, bool computed) {
    const auto count = [&](uint32_t number) {
      if (number == kNoNumber) return;
      Origin& origin = found_.all_[number];
      if (origin.tensor == tensor) return;
      if (origin.kind != OriginKind::kCameIn && origin.event == pass_.tensor(tensor).event) return;
      ++origin.heirs;
      if (computed && origin.kind == OriginKind::kUninitialised && !origin.first_reader) origin.first_reader = tensor;
    };
    count(found_.nan_[tensor]);
    if (found_.inf_[tensor] != found_.nan_[tensor]) count(found_.inf_[tensor]);
  }

  // From the last call to the first: what became of its results is known when a call's turn comes.
  void find_harmless() {
    used_.assign(contents_.size(), false);
    lasts_.assign(contents_.size(), false);
    for (auto event = static_cast<uint32_t>(pass_.event_count()); event-- > 0;) follow_uses(event);
    std::vector<bool> stays(found_.all_.size(), false);
    for (size_t i = 0; i < contents_.size(); ++i) {
      if (found_.nan_[i] != kNoNumber) stays[found_.nan_[i]] = true;
      if (found_.inf_[i] != kNoNumber && goes_on(i) && is_linked(i)) stays[found_.inf_[i]] = true;
    }
    for (size_t i = 0; i < stays.size(); ++i) found_.all_[i].harmless = !stays[i] && !found_.all_[i].became_nan;
  }

  // Nothing was made of it, or Inf that goes on itself. What became NaN is told as such.
  bool goes_on(size_t tensor) const { return lasts_[tensor] || !used_[tensor]; }

  // Notes which arguments a call made values of, and which it passed on to results that go on. What only looks at
  // them, as argmax does, uses nothing, and a view does so only as far as others use it.
  void follow_uses(uint32_t number) {
    const EventRecord event = pass_.event(number);
    if (event.use_count == 0) return;
    const std::string op = operator_of(event);
    std::vector<uint32_t> values;
    std::vector<uint32_t> lasting;
    for (uint32_t i = 0; i < event.use_count; ++i) {
      const UseRecord use = pass_.use(number, i);
      if (is_given(use) || use.record >= contents_.size() || !contents_[use.record].known) continue;
      if (!can_be_nonfinite(pass_.tensor(use.record).dtype)) continue;
      const Content& content = contents_[use.record];
      if (!is_view_op(op) || content.bad() || used_[use.record]) values.push_back(use.record);
      if (content.inf && goes_on(use.record)) lasting.push_back(use.record);
    }
    if (values.empty()) return;
    // An argument that is returned as it was, as by detach, is no result.
    const auto holds_another = [](const std::vector<uint32_t>& records, uint32_t than) {
      return std::ranges::any_of(records, [than](uint32_t each) { return each != than; });
    };
    for (uint32_t i = 0; i < event.use_count; ++i) {
      const UseRecord use = pass_.use(number, i);
      if (!is_given(use) || use.record >= contents_.size() || !holds_another(values, use.record)) continue;
      used_[use.record] = true;
      const bool is_gone = use.written && overwrites_what_it_writes(op);
      if (!is_gone && holds_another(lasting, use.record)) lasts_[use.record] = true;
    }
  }

  // Whether uses can refer to it; those of a module's boundary are beside the flow.
  bool is_linked(size_t tensor) const {
    const uint32_t event = pass_.tensor(tensor).event;
    return event < pass_.event_count() && pass_.event(event).use_count > 0;
  }

  const Pass& pass_;
  const CollectiveCalls& collectives_;
  Origins found_;
  std::vector<Content> contents_;
  std::map<std::pair<uint32_t, OriginKind>, size_t> by_event_;
  std::map<std::tuple<uint32_t, std::string, bool>, size_t> open_;  // by result of a collective, and NaN or Inf
  std::map<std::pair<uint64_t, uint64_t>, size_t> same_bytes_;
  std::vector<TensorUse> uses_of_tensors_;  // sorted; made when it is first needed
  std::vector<bool> used_;                  // by tensor: a call made values of it
  std::vector<bool> lasts_;                 // by tensor: a call made Inf of it, or passed it on, and that goes on
};

Origins find_origins(const Pass& pass, const CollectiveCalls& collectives) {
  return OriginSearch(pass, collectives).run();
}

}  // namespace ttap
