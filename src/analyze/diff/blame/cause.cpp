#include "analyze/diff/blame/cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "analyze/diff/blame/call_node.h"
#include "analyze/diff/blame/dataflow.h"
#include "analyze/diff/blame/rounding.h"
#include "analyze/diff/match/ops/op_list.h"
#include "analyze/diff/match/ops/value_likeness.h"
#include "analyze/ops/event_op.h"
#include "analyze/ops/op_facts.h"
#include "analyze/ops/role_flow.h"
#include "store/graph/graph_notes.h"

namespace ttap {
namespace {

struct HashOfBitsPair {
  size_t operator()(const std::pair<Hash128, Hash128>& bits) const { return bits.first.low ^ (bits.second.low * 31); }
};

// An error that came in within tolerance and left beyond it, having grown less than this many times, is not the
// operator's own. Sound operators of real models let it grow up to 6 times (a GELU, a LayerNorm after cancellation).
constexpr double kOwnGrowth = 8;
// Uncorrelated tensors have a relative RMSE of √2, so growth saturates there: where the tolerance is wide, an error
// cannot grow much before that.
constexpr double kUnrelated = 0.5;
constexpr double kOwnGrowthToUnrelated = 3;
// An error that came in beyond tolerance may grow more before it is the operator's own: a norm makes large what was
// small beside one huge token.
constexpr double kOwnGrowthOfParted = 1000;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// How large an error is beside what it is an error of: as a whole, and at its worst.
struct Relative {
  double whole = 0;
  double worst = 0;
};
Relative relative(const TensorDiff& tensor) {
  if (tensor.verdict == Verdict::kIdentical) return {};
  // What the statistics give is the least it can be, and no measure of growth.
  if (tensor.measures == nullptr || tensor.evidence != Evidence::kValues) return {std::nan(""), std::nan("")};
  const double whole = tensor.rounding > 0 ? tensor.measures->rmse / tensor.measures->rms_a : relative_error(tensor);
  return {whole, tensor.measures->max_abs / tensor.measures->rmse * whole};
}

class Blame {
 public:
  Blame(const Side& a, const Side& b, std::span<TensorDiff> tensors)
      : a_(a), b_(b), tensors_(tensors), dataflow_(a, b, tensors), rounding_(a, b, tensors) {
    for (uint32_t i = 0; i < tensors.size(); ++i) {
      const TensorRecord record = record_at(i);
      const RoleFlow flow = flow_of(record.role);
      Node& node = nodes_[{record.name, record.call, flow.turn}];
      (flow.input ? node.inputs : node.outputs).push_back(i);
    }
    // Parameters that agree do not tell whether the inputs do.
    for (auto& [call, node] : nodes_)
      if (std::ranges::all_of(node.inputs,
                              [&](uint32_t k) { return is_parameter(record_at(k).role) && !differs(tensors_[k]); }))
        node.inputs.clear();
  }

  void find() {
    for (uint32_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].like_rounding) expect_rounding(i);
      explain_by_rounding(i);
      if (!differs(tensors_[i])) {
        agreed_before_ |= tensors_[i].verdict == Verdict::kIdentical || tensors_[i].verdict == Verdict::kWithin;
        continue;
      }
      if (!first_differing_) first_differing_ = i;
      if (came_in(i)) {
        blame_input(i);
        continue;
      }
      blame_output(i);
      last_differing_ = i;
      if (const auto bits = bits_of_b(i)) made_[*bits] = i;
    }
  }

 private:
  TensorRecord record_at(uint32_t i) const {
    const Match& match = tensors_[i].match;
    return match.a != kNoTensor ? a_.tensor(match.a) : b_.tensor(match.b);
  }
  const Side& side_of(uint32_t i) const { return tensors_[i].match.a != kNoTensor ? a_ : b_; }
  std::string key_at(uint32_t i) const { return to_string(record_at(i).key()); }

  void set(uint32_t i, Cause cause, std::string reason, uint32_t source = kNoTensor) {
    TensorDiff& tensor = tensors_[i];
    tensor.cause = cause;
    // Why it is inconclusive, or which shapes it has, stays in front of it.
    tensor.reason = tensor.reason.empty() ? std::move(reason) : fmt::format("{}; {}", tensor.reason, reason);
    tensor.source = source;
  }

  // What came out different before and has the bits of input `i` of B, else simply the last that came out different.
  uint32_t made_by(uint32_t i) const {
    if (const auto bits = bits_of_b(i))
      if (const auto found = made_.find(*bits); found != made_.end()) return found->second;
    return last_differing_.value_or(kNoTensor);
  }

  std::optional<Hash128> bits_of_b(uint32_t i) const {
    if (tensors_[i].match.b == kNoTensor) return std::nullopt;
    const TensorRecord record = b_.tensor(tensors_[i].match.b);
    return record.has_fingerprint ? std::optional(record.fingerprint.hash) : std::nullopt;
  }

  // What a side did not see made (an op's argument from code that was not recorded) may have been made on the other.
  bool is_seen_on_one_side(uint32_t i) const {
    const Match& match = tensors_[i].match;
    return match.a != kNoTensor && match.b != kNoTensor && match.by == MatchedBy::kPlace &&
           is_from_outside(a_, match.a) != is_from_outside(b_, match.b);
  }
  bool came_in(uint32_t i) const { return (is_input(record_at(i).role) || is_handed_on(i)) && !is_seen_on_one_side(i); }
  bool is_handed_on(uint32_t i) const {
    const TensorRecord record = record_at(i);
    return record.event < side_of(i).event_count() && is_placeholder(side_of(i).event(record.event));
  }
  // What came from outside, as an argument of an op or as a placeholder.
  static bool is_from_outside(const Side& side, uint32_t tensor) {
    const TensorRecord record = side.tensor(tensor);
    return is_input(record.role) || (record.event < side.event_count() && is_placeholder(side.event(record.event)));
  }

  bool is_of_op(uint32_t i) const {
    const TensorRecord record = record_at(i);
    return record.event < side_of(i).event_count() && is_op(side_of(i).event(record.event));
  }

  bool is_op_against_module(uint32_t i) const {
    const Match& match = tensors_[i].match;
    const auto of_op = [](const Side& side, uint32_t tensor) {
      const uint32_t event = side.tensor(tensor).event;
      return event < side.event_count() && is_op(side.event(event));
    };
    return match.a != kNoTensor && match.b != kNoTensor && of_op(a_, match.a) != of_op(b_, match.b);
  }

  // What a module of a graph returned is the value of a node.
  bool inherits_from_an_op(uint32_t i) {
    const auto bits = bits_of_b(i);
    const auto made = bits ? made_.find(*bits) : made_.end();
    if (made == made_.end() || !is_of_op(made->second)) return false;
    const uint32_t source = tensors_[made->second].source;
    set(i, Cause::kInherited, fmt::format("it is what {} made", key_at(made->second)),
        source == kNoTensor ? made->second : source);
    return true;
  }

  // What came in: an input or a parameter of a graph.
  std::string given_text(uint32_t i) const {
    const NodeNotes notes = read_node_notes(side_of(i).event(record_at(i).event).notes);
    return notes.parameter.empty() ? "it came in different: it is an input of the graph"
                                   : fmt::format("it came in different: it is {}", notes.parameter);
  }

  void blame_input(uint32_t i) {
    if (is_handed_on(i)) return set(i, Cause::kUnknown, given_text(i));
    if (is_of_op(i)) {
      const auto bits = bits_of_b(i);
      const auto made = bits ? made_.find(*bits) : made_.end();
      if (made != made_.end())
        return set(i, Cause::kInherited, fmt::format("{} made it", key_at(made->second)), made->second);
      for (const uint32_t part : dataflow_.parts_of(i))
        if (part < i && differs(tensors_[part])) {
          const uint32_t source = tensors_[part].source;
          return set(i, Cause::kInherited, fmt::format("{} wrote a part of it", key_at(part)),
                     source == kNoTensor ? part : source);
        }
      return set(i, Cause::kUnknown, "it came in different: no recorded op made it");
    }
    const uint32_t source = made_by(i);
    if (source != kNoTensor) return set(i, Cause::kInherited, fmt::format("differs after {}", key_at(source)), source);
    if (!agreed_before_) return set(i, Cause::kUnknown, "it came in different: nothing was recorded before it");
    set(i, Cause::kUnknown, "it came in different, and everything recorded before it agrees: made by code between");
  }

  void blame_output(uint32_t i) {
    const TensorRecord record = record_at(i);
    const uint32_t turn = flow_of(record.role).turn;
    // A's record may be that of the call that uses it, whose own inputs are others.
    Node own;
    const bool apart = is_seen_on_one_side(i) || is_op_against_module(i);
    if (!is_of_op(i) && inherits_from_an_op(i)) return;
    Node& node = apart ? own : nodes_[{record.name, record.call, turn}];
    if (!apart && inherits_from_a_turn(i, record, turn)) return;
    ask_dataflow(i, node);
    uint64_t alone = node.unknown;  // inputs that only one side has, or that nothing can be said of
    uint32_t differing_input = kNoTensor;
    for (const uint32_t input : node.inputs) {
      const Verdict verdict = tensors_[input].verdict;
      if (input == i) continue;
      if (differs(tensors_[input])) {
        if (differing_input == kNoTensor) differing_input = input;
      } else {
        alone += verdict != Verdict::kIdentical && verdict != Verdict::kWithin;
      }
    }
    const double growth = growth_of(i, node);
    if (differing_input != kNoTensor) {
      if (std::isfinite(growth) && growth >= kOwnGrowthOfParted)
        return introduce(i, record,
                         fmt::format("its input {} differs already; the relative error grew {:.2g} times here",
                                     key_at(differing_input), growth));
      if (is_beyond_rounding(i, node))
        return introduce(i, record, "what came in differs by no more than rounding, as far as the statistics tell");
      const uint32_t source = tensors_[differing_input].source;
      return set(i, Cause::kInherited, fmt::format("its input {} differs", key_at(differing_input)),
                 source == kNoTensor ? differing_input : source);
    }
    if (node.other) return blame_other(i, record, *node.other);
    if (alone > 0)
      return set(i, Cause::kUnknown, fmt::format("{} of its {} inputs cannot be compared", alone, inputs_of(node)));
    if (node.exact && inputs_of(node) == 0) return introduce(i, record, "it was given no tensor");
    if (inputs_of(node) > 0) {
      if (is_of_op(i) && is_collective(operator_of(side_of(i).event(record.event))))
        return set(i, Cause::kUnknown, "what another rank gave to this collective differs, or was not compared");
      if (is_grown(i, node, growth)) return inherit_grown(i, record, growth);
      return introduce(i, record, inputs_text(node, growth));
    }
    if (*first_differing_ != i) {
      return set(i, Cause::kUnknown,
                 fmt::format("its inputs were not recorded (--roles in,out), and {} differs before it",
                             key_at(*first_differing_)));
    }
    if (!agreed_before_) return set(i, Cause::kUnknown, "it is the first recorded, and its inputs were not recorded");
    if (a_.info().format != Format::kSegment && a_.event_count() == 0)
      return set(i, Cause::kUnknown, "the file does not say what ran before it, and its inputs are not in it");
    introduce(i, record, "everything recorded before it agrees; its own inputs were not recorded");
  }

  // An argument is another value though all that both sides have of it agrees: it was made by an op that only one side
  // has, or it is simply another tensor.
  void blame_other(uint32_t i, const TensorRecord& record, const Dataflow::Other& other) {
    const std::string in_a = to_string(a_.tensor(other.a).key()), in_b = to_string(b_.tensor(other.b).key());
    const std::string_view argument = other.path.substr(other.path.starts_with('/') ? 1 : 0);
    if (other.only == kNoTensor)
      return introduce(
          i, record,
          fmt::format("it was given another tensor: its argument {} is {} in A and {} in B", argument, in_a, in_b));
    const char* side = tensors_[other.only].match.a != kNoTensor ? "A" : "B";
    set(i, Cause::kInherited,
        fmt::format("its argument {} comes from {}, which only {} has", argument, key_at(other.only), side),
        other.only);
    if (tensors_[other.only].cause == Cause::kNone)
      introduce(other.only, record_at(other.only),
                fmt::format("{} is given {} in A and {} in B", key_at(i), in_a, in_b));
  }

  void expect_rounding(uint32_t i) {
    const TensorRecord record = record_at(i);
    if (!differs(tensors_[i]) || !is_of_op(i)) return;
    if (came_in(i)) {
      // Made by code that neither side recorded: once ops round, so does that.
      if (rounding_began_) settle_as_rounding(i);
      return;
    }
    Node own;
    Node& node = is_seen_on_one_side(i) ? own : nodes_[{record.name, record.call, flow_of(record.role).turn}];
    ask_dataflow(i, node);
    if (!node.exact || (node.other && node.other->only == kNoTensor)) return;
    // A kernel of A makes several values at once, which B made of one another: some of those come later here.
    const auto comes_later = [&](uint32_t k) { return k >= i && tensors_[k].like_rounding; };
    if (std::ranges::any_of(node.inputs, [&](uint32_t k) { return differs(tensors_[k]) && !comes_later(k); })) return;
    const bool rounded = node.other || node.within > 0 || std::ranges::any_of(node.inputs, [&](uint32_t k) {
                           return tensors_[k].verdict == Verdict::kWithin || (k != i && comes_later(k));
                         });
    const Match& match = tensors_[i].match;
    const bool otherwise = match.by == MatchedBy::kPlace || !is_laid_out_alike(a_.tensor(match.a), b_.tensor(match.b));
    if (!rounded && !otherwise) return;
    rounding_began_ = true;
    settle_as_rounding(i);
  }
  void settle_as_rounding(uint32_t i) {
    tensors_[i].verdict = Verdict::kWithin;
    tensors_[i].evidence = Evidence::kStatistics;
  }

  // An error is held against what was summed to make the value, not only against what is left of it.
  void explain_by_rounding(uint32_t i) {
    TensorDiff& tensor = tensors_[i];
    const bool by_values = tensor.evidence == Evidence::kValues;
    const bool by_statistics = tensor.evidence == Evidence::kStatistics || tensor.like_rounding;
    if (!differs(tensor) || !(by_values || by_statistics) || tensor.verdict == Verdict::kShapeMismatch) return;
    const auto bits = bits_of_pair(i);
    if (came_in(i) || !is_of_op(i)) {
      // What a module was given or returned is the value of an op.
      if (const auto found = bits ? rounded_.find(*bits) : rounded_.end();
          found != rounded_.end() && is_below(found->second, tensor))
        accept_as_rounding(found->second, tensor);
      return;
    }
    Node node;
    ask_dataflow(i, node);
    if (!node.exact || node.other || node.unknown > 0 || !in_progress_.insert(i).second) return;
    for (const uint32_t k : node.inputs)
      if (k > i && differs(tensors_[k]) && !tensors_[k].like_rounding) explain_by_rounding(k);
    in_progress_.erase(i);
    const double floor = rounding_.floor_of(i);
    if (!is_below(floor, tensor)) return;
    const bool rounded =
        node.within > 0 || tensor.match.by == MatchedBy::kPlace ||
        std::ranges::any_of(node.inputs, [&](uint32_t k) { return tensors_[k].verdict == Verdict::kWithin; });
    if (!by_values && !rounded && !is_nothing_but_rounding(floor, tensor)) return;
    rounding_began_ = true;
    accept_as_rounding(floor, tensor);
    if (bits) rounded_.emplace(*bits, floor);
  }
  std::optional<std::pair<Hash128, Hash128>> bits_of_pair(uint32_t i) const {
    const Match& match = tensors_[i].match;
    if (match.a == kNoTensor || match.b == kNoTensor) return std::nullopt;
    const TensorRecord a = a_.tensor(match.a), b = b_.tensor(match.b);
    if (!a.has_fingerprint || !b.has_fingerprint) return std::nullopt;
    return std::pair(a.fingerprint.hash, b.fingerprint.hash);
  }

  static uint64_t inputs_of(const Node& node) {
    return node.inputs.size() + node.same_bits + node.within + node.unknown;
  }

  // What the call was given by the uses that were recorded, in place of the tensors of role in.
  void ask_dataflow(uint32_t i, Node& node) const {
    if (node.exact) return;
    auto inputs = dataflow_.inputs_of(i);
    if (!inputs) return;
    node.exact = true;
    node.inputs = std::move(inputs->found);
    node.same_bits = inputs->same_bits;
    node.within = inputs->within;
    node.unknown = inputs->unknown;
    node.other = inputs->other;
  }

  // From a call inside it, or, of a backward or a recomputation, from a turn before it.
  bool inherits_from_a_turn(uint32_t i, const TensorRecord& record, uint32_t turn) {
    for (uint32_t t = 0; t <= turn; ++t) {
      const auto found = nodes_.find({record.name, record.call, t});
      if (found == nodes_.end()) continue;
      if (const uint32_t inside = found->second.introduced; inside != kNoTensor) {
        set(i, Cause::kInherited, fmt::format("from inside it: {}", key_at(inside)), inside);
        return true;
      }
      if (t == turn) return false;
      for (const auto* tensors : {&found->second.inputs, &found->second.outputs})
        for (const uint32_t other : *tensors)
          if (other < i && differs(tensors_[other])) {
            set(i, Cause::kInherited, fmt::format("its forward differs: {}", key_at(other)), other);
            return true;
          }
    }
    return false;
  }

  // Whether what left is what came in within tolerance, grown, rather than made here.
  bool is_grown(uint32_t i, const Node& node, double growth) const {
    if (!std::isfinite(growth)) return false;
    const double whole = relative(tensors_[i]).whole;
    if (node.grown > 0 && whole < kOwnGrowthOfParted * node.grown) return true;
    return growth < (whole > kUnrelated ? kOwnGrowthToUnrelated : kOwnGrowth);
  }

  // Of an op that only statistics tell of: whether its error is of another size than those it was given, which are all
  // such as rounding makes.
  bool is_beyond_rounding(uint32_t i, const Node& node) const {
    const auto least = [&](uint32_t k) { return tensors_[k].measures == nullptr ? 0 : relative_error(tensors_[k]); };
    if (!node.exact || tensors_[i].verdict != Verdict::kDiverged || tensors_[i].evidence != Evidence::kStatistics)
      return false;
    return std::ranges::all_of(node.inputs, [&](uint32_t k) {
      return !differs(tensors_[k]) ||
             (tensors_[k].like_rounding && !came_in(k) && least(i) >= kOwnGrowthOfParted * least(k) && least(i) > 0);
    });
  }

  // How many times the error that came in has grown; infinite where none came in, or where it is of another kind.
  double growth_of(uint32_t i, const Node& node) const {
    const Measures* measures = tensors_[i].measures.get();
    if (measures == nullptr || tensors_[i].evidence != Evidence::kValues) return kInfinite;
    if (measures->nan_mismatches + measures->inf_mismatches > 0) return kInfinite;
    Relative most;
    for (const uint32_t input : node.inputs) {
      const Relative error = relative(tensors_[input]);
      // Nobody knows how much came in.
      if (differs(tensors_[input]) && !std::isfinite(error.whole)) return kInfinite;
      most.whole = std::max(most.whole, error.whole);
      most.worst = std::max(most.worst, error.worst);
    }
    const Relative error = relative(tensors_[i]);
    const double growth = std::max(error.whole / most.whole, error.worst / most.worst);
    return std::isfinite(growth) ? growth : kInfinite;
  }

  void inherit_grown(uint32_t i, const TensorRecord& record, double growth) {
    set(i, Cause::kInherited,
        fmt::format("its inputs bring an error within tolerance, which grew {:.2g} times", growth),
        last_differing_.value_or(kNoTensor));
    for_each_around(i, record, [&](std::string_view name, uint32_t call) {
      if (const auto found = nodes_.find({name, call, flow_of(record.role).turn}); found != nodes_.end())
        found->second.grown = std::max(found->second.grown, relative(tensors_[i]).whole);
    });
  }

  std::string inputs_text(const Node& node, double growth) const {
    const uint64_t count = inputs_of(node);
    const std::string which = count == 1 ? "its input agrees" : fmt::format("its {} input tensors agree", count);
    if (node.within == 0 &&
        std::ranges::all_of(node.inputs, [&](uint32_t i) { return tensors_[i].verdict == Verdict::kIdentical; }))
      return which + " bit for bit";
    return std::isfinite(growth)
               ? fmt::format("{} within tolerance; the relative error grew {:.2g} times", which, growth)
               : which + " within tolerance";
  }

  void introduce(uint32_t i, const TensorRecord& record, std::string reason) {
    set(i, Cause::kIntroduced, std::move(reason));
    const uint32_t turn = flow_of(record.role).turn;
    for_each_around(i, record, [&](std::string_view name, uint32_t call) {
      // Made where it is missing: what is around may have only gradients of its own.
      Node& node = nodes_[{name, call, turn}];
      if (node.introduced == kNoTensor) node.introduced = i;
    });
  }

  // The calls around a call, innermost first: by the events where there are some, by dotted names where not.
  template <class Visit>
  void for_each_around(uint32_t i, const TensorRecord& record, Visit&& visit) const {
    if (record.event < side_of(i).event_count()) {
      // A parent is an earlier event in a sound file; the count ends a loop in any other.
      uint32_t event = side_of(i).event(record.event).parent;
      for (size_t steps = 0; event < side_of(i).event_count() && steps < side_of(i).event_count(); ++steps) {
        const EventRecord around = side_of(i).event(event);
        visit(around.name, around.call);
        event = around.parent;
      }
      return;
    }
    for (size_t dot = record.name.rfind('.'); dot != std::string_view::npos && dot > 0;
         dot = record.name.rfind('.', dot - 1))
      visit(record.name.substr(0, dot), 1);
  }

  const Side& a_;
  const Side& b_;
  std::span<TensorDiff> tensors_;
  Dataflow dataflow_;
  Rounding rounding_;
  std::unordered_set<uint32_t> in_progress_;                                         // explain_by_rounding()
  std::unordered_map<std::pair<Hash128, Hash128>, double, HashOfBitsPair> rounded_;  // of both sides → what explains it
  std::unordered_map<NodeKey, Node, NodeHash> nodes_;
  std::unordered_map<Hash128, uint32_t> made_;  // B's bits of every output that differed so far
  bool agreed_before_ = false;
  bool rounding_began_ = false;
  std::optional<uint32_t> first_differing_;
  std::optional<uint32_t> last_differing_;  // the last output
};

}  // namespace

bool is_input(std::string_view role) { return flow_of(role).input; }

void find_causes(const Side& a, const Side& b, std::span<TensorDiff> tensors) {
  if (std::ranges::none_of(tensors, [](const TensorDiff& tensor) { return differs(tensor); })) return;
  Blame(a, b, tensors).find();
}

}  // namespace ttap
