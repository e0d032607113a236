#include "analyze/diff/blame/cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "analyze/diff/blame/call_nodes.h"
#include "analyze/diff/blame/flips.h"
#include "analyze/diff/blame/own_errors.h"
#include "analyze/diff/blame/relative.h"
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

class Blame {
 public:
  Blame(const Side& a, const Side& b, std::span<const SettingDiff> settings, const BlameOptions& options,
        std::span<TensorDiff> tensors)
      : a_(a),
        b_(b),
        tensors_(tensors),
        calls_(a, b, tensors, options.strict),
        rounding_(a, b, tensors),
        own_(calls_, rounding_, settings, options, tensors),
        strict_(options.strict) {}

  void find() {
    for (uint32_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].like_rounding && !strict_) expect_rounding(i);
      explain_by_rounding(i);
      const bool made_here = own_.judge(i);
      if (std::string flip = flip_of(calls_, tensors_, i, strict_); !flip.empty()) {
        tensors_[i].verdict = Verdict::kFlipped;
        tensors_[i].reason = std::move(flip);
        last_differing_ = i;
        if (const auto bits = bits_of_b(i)) made_[*bits] = i;
        mark_differing(i);
        continue;
      }
      if (!differs(tensors_[i])) {
        if (tensors_[i].verdict == Verdict::kIdentical || tensors_[i].verdict == Verdict::kWithin) {
          agreed_before_ = true;
          if (Node* code = calls_.around(i)) code->agreed = true;
        }
        continue;
      }
      if (!first_differing_) first_differing_ = i;
      if (came_in(i)) {
        blame_input(i);
        mark_differing(i);
        continue;
      }
      blame_output(i, made_here);
      mark_differing(i);
      last_differing_ = i;
      if (const auto bits = bits_of_b(i)) made_[*bits] = i;
    }
    for (const Node* code : codes_)
      if (std::ranges::none_of(code->outputs, [&](uint32_t k) { return tensors_[k].cause == Cause::kIntroduced; }))
        tensors_[code->made_by_code].cause = Cause::kIntroduced;
  }

 private:
  TensorRecord record_at(uint32_t i) const { return calls_.record_at(i); }
  const Side& side_of(uint32_t i) const { return calls_.side_of(i); }
  std::string key_at(uint32_t i) const { return calls_.key_at(i); }
  bool is_of_op(uint32_t i) const { return calls_.is_of_op(i); }
  bool came_in(uint32_t i) const { return calls_.came_in(i); }

  void set(uint32_t i, Cause cause, const std::string& reason, uint32_t source = kNoTensor) {
    set_cause(tensors_[i], cause, reason, source);
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
    if (calls_.is_handed_on(i)) return set(i, Cause::kUnknown, given_text(i));
    if (is_of_op(i)) {
      const auto bits = bits_of_b(i);
      const auto made = bits ? made_.find(*bits) : made_.end();
      if (made != made_.end())
        return set(i, Cause::kInherited, fmt::format("{} made it", key_at(made->second)), made->second);
      for (const uint32_t part : calls_.dataflow().parts_of(i))
        if (part < i && differs(tensors_[part])) {
          const uint32_t source = tensors_[part].source;
          return set(i, Cause::kInherited, fmt::format("{} wrote a part of it", key_at(part)),
                     source == kNoTensor ? part : source);
        }
      mark_around(i);  // what is made of it inside a module is not that module's own
      return set(i, Cause::kUnknown, "it came in different: no recorded op made it");
    }
    if (is_made_by_code_around(i)) return set(i, Cause::kUnknown, code_text(i));
    const uint32_t source = made_by(i);
    if (source != kNoTensor) return set(i, Cause::kInherited, fmt::format("differs after {}", key_at(source)), source);
    if (is_parameter(record_at(i).role)) return set(i, Cause::kUnknown, "no recorded call wrote to it");
    if (!agreed_before_) return set(i, Cause::kUnknown, "it came in different: nothing was recorded before it");
    set(i, Cause::kUnknown, "it came in different, and everything recorded before it agrees: made by code between");
  }

  // What went into the call around it agrees, and so does all that was made there before it: the code of that call made
  // the difference, between two of the modules that it calls. The call is to blame, or, where its result hides the
  // difference, what it made.
  bool is_made_by_code_around(uint32_t i) {
    Node* code = calls_.around(i);
    if (code == nullptr || code->introduced != kNoTensor || code->differing || code->inputs.empty()) return false;
    const auto agrees = [&](uint32_t k) {
      return tensors_[k].verdict == Verdict::kIdentical || tensors_[k].verdict == Verdict::kWithin;
    };
    if (std::ranges::any_of(code->inputs, [&](uint32_t k) { return differs(tensors_[k]); })) return false;
    const auto is_alone = [&](uint32_t k) {
      return tensors_[k].verdict == Verdict::kMissing || tensors_[k].verdict == Verdict::kExtra;
    };
    if (std::ranges::none_of(code->inputs, agrees) &&
        (*first_differing_ < i || (!code->agreed && std::ranges::all_of(code->inputs, is_alone))))
      return false;
    code->made_by_code = i;
    codes_.push_back(code);
    return true;
  }
  std::string code_text(uint32_t i) {
    Node* code = calls_.around(i);
    uint32_t before = i;
    while (before > 0 && (before == i || calls_.came_in(before) || calls_.around(before) != code)) --before;
    const bool first = calls_.came_in(before) || calls_.around(before) != code;
    return fmt::format("made by code of {}, {} {}", calls_.name_around(i),
                       first ? std::string("before") : fmt::format("between {} and", key_at(before)), key_at(i));
  }

  // `made_here`: what it was made of, inside the call too, agrees and does not explain it.
  void blame_output(uint32_t i, bool made_here) {
    const TensorRecord record = record_at(i);
    const uint32_t turn = flow_of(record.role).turn;
    if (!is_of_op(i) && inherits_from_an_op(i)) return;
    if (!calls_.is_apart(i) && inherits_from_a_turn(i, turn, made_here)) return;
    const Node& node = calls_.of(i);
    uint64_t alone = node.unknown;  // inputs that only one side has, or that nothing can be said of
    uint32_t differing_input = kNoTensor;
    for (const uint32_t input : node.inputs) {
      const Verdict verdict = tensors_[input].verdict;
      if (input == i) continue;
      if (differs(tensors_[input]) || verdict == Verdict::kFlipped) {
        if (differing_input == kNoTensor) differing_input = input;
      } else {
        alone += verdict != Verdict::kIdentical && verdict != Verdict::kWithin;
      }
    }
    const double growth = growth_of(i, node);
    if (differing_input != kNoTensor) {
      if (std::isfinite(growth) && growth >= kOwnGrowthOfParted)
        return introduce(i, fmt::format("its input {} differs already; the relative error grew {:.2g} times here",
                                        key_at(differing_input), growth));
      if (is_beyond_rounding(i, node))
        return introduce(i, "what came in differs by no more than rounding, as far as the statistics tell");
      const uint32_t source = tensors_[differing_input].source;
      return set(i, Cause::kInherited, fmt::format("its input {} differs", key_at(differing_input)),
                 source == kNoTensor ? differing_input : source);
    }
    if (node.other) return blame_other(i, *node.other);
    if (alone > 0)
      return set(i, Cause::kUnknown, fmt::format("{} of its {} inputs cannot be compared", alone, node.input_count()));
    if (node.exact && node.input_count() == 0) return introduce(i, "it was given no tensor");
    if (node.input_count() > 0) {
      if (is_of_op(i) && is_collective(operator_of(side_of(i).event(record.event))))
        return set(i, Cause::kUnknown, "what another rank gave to this collective differs, or was not compared");
      if (made_here) return introduce(i, inputs_text(node, growth));
      if (is_grown(i, node, growth)) return inherit_grown(i, growth);
      if (comes_from_inside(i, node)) return;
      return introduce(i, inputs_text(node, growth));
    }
    if (*first_differing_ != i) {
      return set(i, Cause::kUnknown,
                 fmt::format("its inputs were not recorded (--roles in,out), and {} differs before it",
                             key_at(*first_differing_)));
    }
    if (!agreed_before_) return set(i, Cause::kUnknown, "it is the first recorded, and its inputs were not recorded");
    if (a_.info().format != Format::kSegment && a_.event_count() == 0)
      return set(i, Cause::kUnknown, "the file does not say what ran before it, and its inputs are not in it");
    introduce(i, "everything recorded before it agrees; its own inputs were not recorded");
  }

  // What was made inside a call has other bits, and its result is not much further off than that: the error began
  // there, within tolerance, and grew past it.
  bool comes_from_inside(uint32_t i, const Node& node) {
    if (node.unequal >= i) return false;
    const double whole = relative(tensors_[i]).whole;
    if (is_measured(tensors_[i]) && !(whole < kOwnGrowth * node.most_inside)) return false;
    if (const Measures* m = tensors_[i].measures.get();
        m != nullptr && m->nan_mismatches + m->inf_mismatches > 0 && node.first_differing >= i)
      return false;
    if (node.made_by_code != kNoTensor) return false;  // its own code
    const uint32_t origin = node.unequal;
    const bool by_own_code = calls_.came_in(origin) && calls_.around(origin) == &node;
    if (by_own_code && (calls_.is_made_of_same_bits(origin) || grew_at(origin, node))) return false;
    if (const uint32_t inside = node.first_differing; inside < i) {
      const uint32_t source = tensors_[inside].source;
      set(i, Cause::kInherited, fmt::format("from inside it: {}", key_at(inside)),
          source == kNoTensor ? inside : source);
      return true;
    }
    if (calls_.is_made_of_same_bits(origin)) {
      introduce(origin, fmt::format("all that it was made of agrees bit for bit, and its bits do not; that is within "
                                    "tolerance here, and grows past it at {}",
                                    key_at(i)));
      set(i, Cause::kInherited, fmt::format("from inside it: {}", key_at(origin)), origin);
      return true;
    }
    set(i, Cause::kInherited, fmt::format("an error within tolerance came from inside it: {}", key_at(origin)), origin);
    return true;
  }

  // Whether the error of what the code of a call made is far larger than what went into the call.
  bool grew_at(uint32_t made, const Node& node) const {
    double most = 0;
    for (const uint32_t k : node.inputs) most = std::max(most, relative(tensors_[k]).whole);
    return relative(tensors_[made]).whole >= kOwnGrowth * most;
  }

  // An argument is another value though all that both sides have of it agrees: it was made by an op that only one side
  // has, or it is simply another tensor.
  void blame_other(uint32_t i, const Dataflow::Other& other) {
    const std::string in_a = to_string(a_.tensor(other.a).key()), in_b = to_string(b_.tensor(other.b).key());
    const std::string_view argument = other.path.substr(other.path.starts_with('/') ? 1 : 0);
    if (other.only == kNoTensor)
      return introduce(
          i, fmt::format("it was given another tensor: its argument {} is {} in A and {} in B", argument, in_a, in_b));
    const char* side = tensors_[other.only].match.a != kNoTensor ? "A" : "B";
    set(i, Cause::kInherited,
        fmt::format("its argument {} comes from {}, which only {} has", argument, key_at(other.only), side),
        other.only);
    if (tensors_[other.only].cause == Cause::kNone)
      introduce(other.only, fmt::format("{} is given {} in A and {} in B", key_at(i), in_a, in_b));
  }

  void expect_rounding(uint32_t i) {
    if (!differs(tensors_[i]) || !is_of_op(i)) return;
    if (came_in(i)) {
      // Made by code that neither side recorded: once ops round, so does that.
      if (rounding_began_) settle_as_rounding(i);
      return;
    }
    const Node& node = calls_.of(i);
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
    const bool by_values = is_measured(tensor);
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
    const Node node = calls_.used_by(i);
    if (!node.exact || node.other || node.unknown > 0 || !in_progress_.insert(i).second) return;
    for (const uint32_t k : node.inputs)
      if (k > i && differs(tensors_[k]) && !tensors_[k].like_rounding) explain_by_rounding(k);
    in_progress_.erase(i);
    const double floor = rounding_.floor_of(i);
    double in_proportion = 0;
    for (const uint32_t k : node.inputs) in_proportion = std::max(in_proportion, error_in_proportion(tensors_[k]));
    if (!is_below(floor, tensor, in_proportion)) return;
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

  // From a call inside it, or, of a backward or a recomputation, from a turn before it.
  bool inherits_from_a_turn(uint32_t i, uint32_t turn, bool made_here) {
    // What only stands out among others does not explain what diverged by itself.
    const auto is_doubtful = [&](uint32_t k) {
      return made_here && tensors_[i].verdict == Verdict::kDiverged && tensors_[k].stands_out;
    };
    for (uint32_t t = 0; t <= turn; ++t) {
      const Node* found = calls_.turn_of(i, t);
      if (found == nullptr) continue;
      if (const uint32_t inside = found->introduced; inside != kNoTensor && !is_doubtful(inside)) {
        set(i, Cause::kInherited, fmt::format("from inside it: {}", key_at(inside)), inside);
        return true;
      }
      if (t == turn) return false;
      for (const auto* tensors : {&found->inputs, &found->outputs})
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
      if (tensors_[k].verdict == Verdict::kFlipped) return false;  // what follows from it differs
      return !differs(tensors_[k]) ||
             (tensors_[k].like_rounding && !came_in(k) && least(i) >= kOwnGrowthOfParted * least(k) && least(i) > 0);
    });
  }

  // How many times the error that came in has grown; infinite where none came in, or where it is of another kind.
  double growth_of(uint32_t i, const Node& node) const {
    const Measures* measures = tensors_[i].measures.get();
    if (!is_measured(tensors_[i])) return kInfinite;
    if (measures->nan_mismatches + measures->inf_mismatches > 0) return kInfinite;
    Relative most;
    for (const uint32_t input : node.inputs) {
      // Another choice changes what follows from it by any amount.
      if (tensors_[input].verdict == Verdict::kFlipped) return kInfinite;
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

  void inherit_grown(uint32_t i, double growth) {
    set(i, Cause::kInherited,
        fmt::format("its inputs bring an error within tolerance, which grew {:.2g} times", growth),
        last_differing_.value_or(kNoTensor));
    calls_.for_each_around(i, [&](Node& node) { node.grown = std::max(node.grown, relative(tensors_[i]).whole); });
  }

  std::string inputs_text(const Node& node, double growth) {
    const uint64_t count = node.input_count();
    if (node.made_by_code != kNoTensor) {
      const uint32_t made = node.made_by_code;
      const bool same = calls_.is_made_of_same_bits(made);
      return fmt::format("{}, of inputs that agree {}", code_text(made), same ? "bit for bit" : "within tolerance");
    }
    const std::string which = count == 1 ? "its input agrees" : fmt::format("its {} input tensors agree", count);
    if (node.within == 0 &&
        std::ranges::all_of(node.inputs, [&](uint32_t i) { return tensors_[i].verdict == Verdict::kIdentical; }))
      return which + " bit for bit";
    return std::isfinite(growth)
               ? fmt::format("{} within tolerance; the relative error grew {:.2g} times", which, growth)
               : which + " within tolerance";
  }

  void introduce(uint32_t i, const std::string& reason) {
    set(i, Cause::kIntroduced, reason);
    mark_around(i);
  }
  void mark_differing(uint32_t i) {
    if (Node* code = calls_.around(i)) code->differing = true;
    calls_.for_each_around(i, [&](Node& node) { node.first_differing = std::min(node.first_differing, i); });
  }
  void mark_around(uint32_t i) {
    calls_.for_each_around(i, [&](Node& node) {
      if (node.introduced == kNoTensor) node.introduced = i;
    });
  }

  const Side& a_;
  const Side& b_;
  std::span<TensorDiff> tensors_;
  CallNodes calls_;
  Rounding rounding_;
  OwnErrors own_;
  const bool strict_;
  std::unordered_set<uint32_t> in_progress_;                                         // explain_by_rounding()
  std::unordered_map<std::pair<Hash128, Hash128>, double, HashOfBitsPair> rounded_;  // of both sides → what explains it
  std::unordered_map<Hash128, uint32_t> made_;  // B's bits of every output that differed so far
  std::vector<const Node*> codes_;              // whose own code made a difference
  bool agreed_before_ = false;
  bool rounding_began_ = false;
  std::optional<uint32_t> first_differing_;
  std::optional<uint32_t> last_differing_;  // the last output
};

}  // namespace

bool is_input(std::string_view role) { return flow_of(role).input; }

void find_causes(const Side& a, const Side& b, std::span<const SettingDiff> settings, const BlameOptions& options,
                 std::span<TensorDiff> tensors) {
  if (std::ranges::all_of(tensors, [](const TensorDiff& tensor) { return tensor.verdict == Verdict::kIdentical; }))
    return;
  Blame(a, b, settings, options, tensors).find();
}

}  // namespace ttap
