#include "analyze/collectives/collective_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/json.h"

namespace ttap {
namespace {

// Positions of arguments; -1: it has none.
struct CollectiveRow {
  std::string_view name;  // plain_op()
  Contributors contributors = Contributors::kAll;
  int root = -1;        // in c10d
  int functional = -1;  // the same in _c10d_functional
  bool result_per_rank = false;
  bool argument_per_rank = false;
};

// Those of which every rank contributes to every result need no row.
constexpr CollectiveRow kRows[] = {
    {"allgather", Contributors::kAll, -1, -1, true, false},
    {"gather", Contributors::kAll, -1, -1, true, false},
    {"alltoall", Contributors::kAll, -1, -1, true, true},
    {"reduce_scatter", Contributors::kAll, -1, -1, false, true},
    {"broadcast", Contributors::kRoot, 2, 1},
    {"scatter", Contributors::kRoot, 3, -1, false, true},
    {"barrier", Contributors::kNone},
    {"monitored_barrier", Contributors::kNone},
};

// A send or receive: the other end and the tag.
struct PointToPointRow {
  std::string_view name;
  bool sends;
  int peer;
  int tag;
};
constexpr PointToPointRow kPointToPoint[] = {
    {"send", true, 2, 3}, {"recv", false, 2, 3}, {"isend", true, 1, 2}, {"irecv", false, 1, 2}};

// Of the same libraries, but they exchange nothing.
constexpr std::string_view kLocal[] = {"wait_tensor", "_wrap_tensor_autograd", "check_for_nan"};
// They exchange values, and the recording does not tell with whom.
constexpr std::string_view kUntold[] = {"recv_any_source", "batch_p2p_ops"};

std::optional<uint32_t> whole_number(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

std::optional<uint32_t> whole_argument(const EventRecord& event, int position) {
  if (position < 0) return std::nullopt;
  const auto value = literal_at(event.arguments, static_cast<size_t>(position));
  return value && *value >= 0 ? std::optional(static_cast<uint32_t>(*value)) : std::nullopt;
}

// `0 (default_pg), rank 1 of 2`.
void read_group(std::string_view notes, CollectiveCall& call) {
  if (notes.find("\"group\"") == std::string_view::npos) return;
  const SortedJson object = parse_sorted_json(notes);
  if (!object.is_object() || !object.contains("group") || !object["group"].is_string()) return;
  const std::string text = object["group"].get<std::string>();
  constexpr std::string_view kRank = ", rank ", kOf = " of ";
  const size_t rank = text.rfind(kRank);
  if (rank == std::string::npos) return;
  const std::string_view numbers = std::string_view(text).substr(rank + kRank.size());
  const size_t of = numbers.find(kOf);
  if (of == std::string_view::npos) return;
  const auto group_rank = whole_number(numbers.substr(0, of));
  const auto group_size = whole_number(numbers.substr(of + kOf.size()));
  if (!group_rank || !group_size || *group_rank >= *group_size) return;
  call.group = text.substr(0, rank);
  call.group_rank = *group_rank;
  call.group_size = *group_size;
}

// The number at the end of a path: 1 in `/0/1`.
std::optional<uint32_t> last_index(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos || slash == 0 ? std::nullopt : whole_number(path.substr(slash + 1));
}

}  // namespace

std::optional<CollectiveCall> collective_of(const EventRecord& event) {
  CollectiveCall call{.op = operator_of(event)};
  const std::string_view name = plain_op(call.op);
  if (!is_collective(call.op) || std::ranges::find(kLocal, name) != std::end(kLocal)) return std::nullopt;
  read_group(event.notes, call);
  const auto is_untold = [&] {
    call.group.clear();
    call.channel.clear();
    return call;
  };
  if (call.group.empty() || std::ranges::find(kUntold, name) != std::end(kUntold)) return is_untold();
  call.channel = call.group;
  if (const auto row = std::ranges::find(kPointToPoint, name, &PointToPointRow::name); row != std::end(kPointToPoint)) {
    call.peer = whole_argument(event, row->peer);
    const auto tag = whole_argument(event, row->tag);
    if (!call.peer || !tag) return is_untold();
    call.contributors = Contributors::kRoot;
    call.root = row->sends ? call.group_rank : *call.peer;
    call.channel += fmt::format(" from {} to {} tag {}", call.root, row->sends ? *call.peer : call.group_rank, *tag);
    return call;
  }
  const auto row = std::ranges::find(kRows, name, &CollectiveRow::name);
  if (row == std::end(kRows)) return call;
  call.contributors = row->contributors;
  call.result_per_rank = row->result_per_rank;
  call.argument_per_rank = row->argument_per_rank;
  if (call.contributors != Contributors::kRoot) return call;
  const auto root = whole_argument(event, call.op.starts_with("c10d::") ? row->root : row->functional);
  if (!root) return is_untold();
  call.root = *root;
  return call;
}

std::string ordinal(uint32_t number) {
  const bool teens = number % 100 / 10 == 1;
  const char* ending = teens || number % 10 > 3 || number % 10 == 0 ? "th"
                       : number % 10 == 1                           ? "st"
                       : number % 10 == 2                           ? "nd"
                                                                    : "rd";
  return fmt::format("{}{}", number, ending);
}

std::string call_text(const CollectiveCall& call) {
  if (call.group.empty()) return call.op;
  return fmt::format("{} of group {}, its {}", call.op, call.channel, ordinal(call.number));
}

bool may_contribute(const CollectiveCall& call, uint32_t group_rank, std::string_view path) {
  if (call.contributors == Contributors::kNone) return false;
  if (call.contributors == Contributors::kRoot) return group_rank == call.root;
  const auto from = call.result_per_rank ? last_index(path) : std::nullopt;
  return !from || *from == group_rank;
}

bool contributes(const CollectiveCall& call, const UseRecord& use, uint32_t receiver, std::string_view path) {
  if (use.written && overwrites_what_it_writes(call.op)) return false;
  if (!may_contribute(call, call.group_rank, path)) return false;
  const auto to = call.argument_per_rank ? last_index(use.path) : std::nullopt;
  return !to || *to == receiver;
}

}  // namespace ttap
