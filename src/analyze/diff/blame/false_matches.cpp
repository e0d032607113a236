#include "analyze/diff/blame/false_matches.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "analyze/diff/blame/compared_side.h"
#include "analyze/ops/event_op.h"
#include "analyze/ops/op_facts.h"

namespace ttap {
namespace {

constexpr size_t kMostMade = 4096;  // values that are followed from one
// A result has at least this share of the relative error of what it was made of, where it has that error at all.
constexpr double kLeft = 1.0 / 8;

bool has_partner(const TensorDiff& tensor) { return tensor.match.a != kNoTensor && tensor.match.b != kNoTensor; }

bool disagree(const TensorDiff& tensor) { return has_partner(tensor) && differs(tensor) && !tensor.like_rounding; }

// Whether an error within tolerance may be what is left of that of a value further up.
bool may_come_from(const TensorDiff& tensor, const TensorDiff& above) {
  return tensor.verdict != Verdict::kIdentical && is_measured(tensor) && is_measured(above) &&
         relative_error(tensor) > kLeft * relative_error(above);
}

class FalseMatches {
 public:
  FalseMatches(const SideOps& a, const SideOps& b, const std::vector<TensorDiff>& tensors)
      : tensors_(tensors), a_(a, tensors, &Match::a), b_(b, tensors, &Match::b), is_false_(tensors.size()) {}

  // Whether each pair is a false match. From the last to the first: what is made of a false match may be one too.
  std::vector<bool> find() {
    for (size_t i = tensors_.size(); i-- > 0;) {
      if (!disagree(tensors_[i])) continue;
      if (shows_what_agrees(a_, tensors_[i].match.a, b_, tensors_[i].match.b, tensors_[i]) ||
          shows_what_agrees(b_, tensors_[i].match.b, a_, tensors_[i].match.a, tensors_[i])) {
        is_false_[i] = true;
        continue;
      }
      if (is_sure(tensors_[i])) continue;
      const Outcome of_a = follow(a_, tensors_[i].match.a, tensors_[i]);
      const Outcome of_b = follow(b_, tensors_[i].match.b, tensors_[i]);
      is_false_[i] = !of_a.disagrees && !of_b.disagrees && (of_a.agrees || of_b.agrees);
    }
    return std::move(is_false_);
  }

 private:
  struct Program : ComparedSide {
    Program(const SideOps& ops, const std::vector<TensorDiff>& tensors, uint32_t Match::*record)
        : ComparedSide(ops.side(), tensors, record), list(ops.list()), uses(ops.uses()) {
      for (const TensorDiff& tensor : tensors) {
        if (!has_partner(tensor) || disagree(tensor) || tensor.evidence == Evidence::kNothing) continue;
        const TensorRecord value = side.tensor(tensor.match.*record);
        if (list.op_of(tensor.match.*record) == kNoOp && value.has_fingerprint) agreed.insert(value.fingerprint.hash);
      }
    }
    // Whether a module returned it, or was given it, and both sides agree there.
    bool is_agreed(uint32_t tensor) const {
      const TensorRecord value = side.tensor(tensor);
      return value.has_fingerprint && !list.is_plain(tensor) && agreed.contains(value.fingerprint.hash);
    }
    const OpList& list;
    const OpUses& uses;
    std::unordered_set<Hash128> agreed;
  };
  struct Outcome {
    bool agrees = false;     // something that is made of it
    bool disagrees = false;  // likewise; or the program ends with it
  };

  // Whether one side only views a value that agrees with another one there: what the other side's operator or kernel
  // made of it, or code that was not recorded, is another thing, and only that can be wrong.
  bool shows_what_agrees(const Program& one, uint32_t tensor, const Program& other, uint32_t with,
                         const TensorDiff& pair) const {
    if (pair.match.by == MatchedBy::kMap || pair.match.by == MatchedBy::kDeclared) return false;
    if (!is_view(one, tensor) || other.list.op_of(with) == kNoOp || is_view(other, with)) return false;
    const std::span<const uint32_t> viewed = one.list.inputs(one.list.ops()[one.list.op_of(tensor)]);
    const uint32_t position = viewed.empty() || viewed[0] == kNoTensor ? kNoTensor : one.position_of[viewed[0]];
    return position != kNoTensor && has_partner(tensors_[position]) && !disagree(tensors_[position]) &&
           tensors_[position].evidence != Evidence::kNothing;
  }
  static bool is_view(const Program& program, uint32_t tensor) {
    const uint32_t op = program.list.op_of(tensor);
    return op != kNoOp && program.list.position_of(tensor) != kNoTensor &&
           is_view_op(operator_of(program.side.event(program.list.ops()[op].event)));
  }

  // Whether the two were given the same, as far as is known: then what they made is to be the same, whatever becomes of
  // it. Of different operators that must be known of everything.
  bool is_sure(const TensorDiff& pair) const {
    if (pair.match.by == MatchedBy::kMap) return true;
    const uint32_t x = a_.list.op_of(pair.match.a), y = b_.list.op_of(pair.match.b);
    if (x == kNoOp || y == kNoOp) return true;
    const bool made_a = a_.list.position_of(pair.match.a) != kNoTensor;
    const bool made_b = b_.list.position_of(pair.match.b) != kNoTensor;
    if (!made_a && !made_b) return true;  // what came from outside
    if (!made_a || !made_b || pair.verdict == Verdict::kShapeMismatch) return false;
    const Op &one = a_.list.ops()[x], &other = b_.list.ops()[y];
    if (one.kernel || other.kernel) return false;
    // A view shows what it was given, and is as right as that.
    if (is_view(a_, pair.match.a) && is_view(b_, pair.match.b)) return false;
    const bool in_doubt = pair.match.by == MatchedBy::kPlace;
    if (in_doubt && one.input_count != other.input_count) return false;
    const std::span<const uint32_t> inputs_a = a_.list.inputs(one), inputs_b = b_.list.inputs(other);
    return std::ranges::all_of(inputs_a, [&](uint32_t input) { return is_among(a_, input, b_, inputs_b, in_doubt); }) &&
           std::ranges::all_of(inputs_b, [&](uint32_t input) { return is_among(b_, input, a_, inputs_a, in_doubt); });
  }

  // Whether what one was given is among what the other was given; where nothing is known of it but its size, or that it
  // is wrong, it is unless `in_doubt`.
  bool is_among(const Program& program, uint32_t input, const Program& other, std::span<const uint32_t> inputs,
                bool in_doubt) const {
    if (input == kNoTensor) return true;
    const uint32_t position = program.position_of[input];
    const bool is_paired = position != kNoTensor && has_partner(tensors_[position]) && !is_false_[position];
    const Match match = is_paired ? tensors_[position].match : Match{};
    const uint32_t partner = &program == &a_ ? match.b : match.a;
    if (is_paired && std::ranges::find(inputs, partner) != inputs.end())
      return !in_doubt || !disagree(tensors_[position]);
    if (!is_paired && !in_doubt)
      return std::ranges::any_of(inputs, [&](uint32_t given) {
        return given == kNoTensor || other.list.elements(given) == program.list.elements(input);
      });
    return program.list.bits(input) != 0 && std::ranges::any_of(inputs, [&](uint32_t given) {
             return given != kNoTensor && other.list.bits(given) == program.list.bits(input);
           });
  }

  // What becomes of a value of a pair, as far as to the first values that have a partner.
  Outcome follow(const Program& program, uint32_t tensor, const TensorDiff& from) const {
    Outcome outcome;
    if (program.list.op_of(tensor) == kNoOp) return {.disagrees = true};
    if (program.is_agreed(tensor)) return {.agrees = true};
    std::vector<uint32_t> values = {tensor};
    bool is_used = false;
    for (size_t next = 0; next < values.size() && !outcome.disagrees; ++next)
      for (const uint32_t user : program.uses.of(values[next])) {
        const Op& op = program.list.ops()[user];
        is_used |= !op.copies;
        for (const uint32_t made : program.list.values(op)) {
          const uint32_t position = program.position_of[made];
          if (position == kNoTensor || std::ranges::find(values, made) != values.end()) continue;
          const TensorDiff& pair = tensors_[position];
          const bool is_paired = has_partner(pair) && !is_false_[position];
          if (program.is_agreed(made)) {
            outcome.agrees = true;
          } else if (is_paired && (disagree(pair) || may_come_from(pair, from))) {
            outcome.disagrees = true;
          } else if (is_paired && pair.evidence != Evidence::kNothing && !program.list.is_plain(made)) {
            outcome.agrees = true;
          } else if (values.size() < kMostMade) {
            values.push_back(made);
          } else {
            outcome.disagrees = true;  // it cannot be told
          }
        }
      }
    outcome.disagrees |= !is_used && !outcome.agrees && program.list.is_real(tensor);
    return outcome;
  }

  const std::vector<TensorDiff>& tensors_;
  const Program a_, b_;
  std::vector<bool> is_false_;
};

void unmatch(const std::vector<bool>& is_false, std::vector<TensorDiff>& tensors, std::string_view note) {
  if (std::ranges::find(is_false, true) == is_false.end()) return;
  std::vector<TensorDiff> kept;
  kept.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!is_false[i]) {
      kept.push_back(std::move(tensors[i]));
      continue;
    }
    const Match match = tensors[i].match;
    TensorDiff& only_a = kept.emplace_back();
    only_a.match = {.a = match.a};
    only_a.verdict = Verdict::kMissing;
    only_a.note = note;
    TensorDiff& only_b = kept.emplace_back();
    only_b.match = {.b = match.b};
    only_b.verdict = Verdict::kExtra;
    only_b.note = note;
  }
  tensors = std::move(kept);
}

}  // namespace

void unmatch_false_matches(const SideOps& a, const SideOps& b, std::vector<TensorDiff>& tensors) {
  if (std::ranges::none_of(tensors, disagree)) return;
  unmatch(FalseMatches(a, b, tensors).find(), tensors,
          "its match was given up: the two disagree, and all that was made of them agrees");
}

std::vector<Match> unmatch_guesses(std::vector<TensorDiff>& tensors) {
  std::vector<bool> is_guess(tensors.size());
  std::vector<Match> open;
  bool agrees_later = false;
  for (size_t i = tensors.size(); i-- > 0;) {
    const TensorDiff& tensor = tensors[i];
    if (!has_partner(tensor)) continue;
    is_guess[i] = tensor.match.by == MatchedBy::kStructure && tensor.match.confidence < kCertain && differs(tensor);
    if (is_guess[i] && !agrees_later) open.push_back(tensor.match);
    agrees_later |= (tensor.verdict == Verdict::kIdentical || tensor.verdict == Verdict::kWithin) &&
                    tensor.evidence != Evidence::kNothing;
  }
  unmatch(is_guess, tensors, "its match by structure, less than 70 % sure, was given up: the two disagree");
  std::ranges::reverse(open);
  return open;
}

}  // namespace ttap
